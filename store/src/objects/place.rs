//! Where object storage is, and how it is opened.

use std::{
    fmt, fs, io,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use object_store::{
    ClientOptions, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
};

use super::{Error, Objects};

/// A bucket is asked again for so long at the most; then whoever asked is told.
const RETRY_WITHIN: Duration = Duration::from_secs(20);

/// One request may take this long.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);

/// A word that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where results over the inline limit stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a directory, which only this uses. Of several servers on one database all have to see the same.
    Directory(PathBuf),
    /// In a bucket that speaks S3.
    Bucket(Bucket),
}

/// A bucket. What is not given here is taken from the standard variables (`AWS_ACCESS_KEY_ID` and the like), else asked of
/// the host that this runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// What stands before the name of each object, without the slash; may be empty.
    pub prefix: String,
    /// The URL of the service. None: Amazon's.
    pub endpoint: Option<String>,
    /// The region. None: as the variables say, else `us-east-1`.
    pub region: Option<String>,
    /// Whether the name of the bucket stands in the path instead of in the host name.
    pub path_style: bool,
    /// Key id and secret.
    pub credentials: Option<(String, Secret)>,
}

impl Place {
    pub(super) fn open(&self) -> Result<Objects, Error> {
        match self {
            Self::Directory(path) => {
                let failed = |source| Error::Directory { path: path.clone(), source };
                made(path).map_err(failed)?;
                let store = LocalFileSystem::new_with_prefix(path);
                let store = store.map_err(|error| failed(io::Error::other(error)))?.with_fsync(true);
                let directory = Some(path.clone());
                Ok(Objects { store: Arc::new(store), prefix: Path::default(), directory })
            }
            Self::Bucket(bucket) => {
                let store = bucket.open().map_err(|error| Error::Settings(error.to_string()))?;
                let prefix =
                    Path::parse(&bucket.prefix).map_err(|error| Error::Settings(error.to_string()))?;
                Ok(Objects { store, prefix, directory: None })
            }
        }
    }
}

/// Makes the directory for its owner alone: results may hold secrets. One that is there stays as it is: it may be the root
/// of a file system that others own, or be shared on purpose.
fn made(directory: &FilePath) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    // Of what is no directory it says so.
    let mode = fs::read_dir(directory).and_then(|_| fs::metadata(directory))?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(
            directory = %directory.display(),
            mode = format!("{:o}", mode & 0o777),
            "others than the server's user may reach into the directory of results, which may hold secrets"
        );
    }
    Ok(())
}

impl Bucket {
    fn open(&self) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
        // The client of HTTP takes the provider of the process; another part of the process may have set it already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let plain = self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let options = ClientOptions::new().with_allow_http(plain).with_timeout(REQUEST_WITHIN);
        let retry = RetryConfig { max_retries: 3, retry_timeout: RETRY_WITHIN, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&self.name)
            .with_virtual_hosted_style_request(!self.path_style)
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        } else if builder.get_config_value(&AmazonS3ConfigKey::Region).is_none() {
            builder = builder.with_region("us-east-1");
        }
        if let Some((id, Secret(secret))) = &self.credentials {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        Ok(Arc::new(builder.build()?))
    }
}

/// Removes files that were written in part and not touched since. How many.
pub(super) fn remove_unfinished(directory: &FilePath, now: SystemTime, since: Duration) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // `NAME#1`: as object_store names what is not finished.
        let name = entry.file_name();
        let unfinished = name.to_str().and_then(|name| name.split_once('#')).is_some_and(|(name, part)| {
            name.parse::<super::ObjectName>().is_ok() && part.bytes().all(|byte| byte.is_ascii_digit())
        });
        if !unfinished {
            continue;
        }
        let touched = match entry.metadata().and_then(|facts| facts.modified()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if now.duration_since(touched).is_ok_and(|age| age >= since) {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => removed += 1,
            }
        }
    }
    Ok(removed)
}
