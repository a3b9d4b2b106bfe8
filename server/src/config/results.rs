//! `[results]`: where results over the inline limit stand.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tenure_proto::limits;

use super::document::{Problems, Table};

/// The shortest time between two sweeps of object storage.
const SHORTEST_SWEEP: Duration = Duration::from_secs(1);

/// The longest.
const LONGEST_SWEEP: Duration = Duration::from_secs(86_400);

/// The largest `max_bytes`: 5 GiB.
const MOST_BYTES: u64 = 5 << 30;

/// Results over the inline limit of 256 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    /// Where they stand. Default: in `results` in the data directory; beside a Postgres database nowhere, and then jobs with
    /// such results fail.
    pub place: Option<ResultPlace>,
    /// The largest that is taken, in bytes, 256 KiB to 5 GiB. Default: 64 MiB. A job with a larger one fails.
    pub max_bytes: u64,
    /// Between two comparisons of everything that is stored with what results name, 1 s to 1 day. Default: 10 min.
    pub sweep: Duration,
}

/// A place for results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPlace {
    /// A directory. Several servers on one database have to see the same.
    Directory(PathBuf),
    /// A bucket that speaks S3.
    Bucket(ResultBucket),
}

/// A bucket. What is not named is as in [`tenure_store::objects::Bucket`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultBucket {
    /// Its name.
    pub name: String,
    /// Before the name of each object; may be empty.
    pub prefix: String,
    /// The URL of the service.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Whether the bucket is named in the path instead of in the host name.
    pub path_style: bool,
    /// The key id, and the file in which its secret stands alone, read at every start.
    pub credentials: Option<(String, PathBuf)>,
}

impl Default for Results {
    fn default() -> Self {
        Self { place: None, max_bytes: limits::RESULT_BYTES, sweep: Duration::from_secs(600) }
    }
}

impl Results {
    /// Relative paths are meant from this directory.
    pub(super) fn relative_to(&mut self, parent: &Path) {
        match &mut self.place {
            Some(ResultPlace::Directory(path)) => *path = parent.join(&*path),
            Some(ResultPlace::Bucket(ResultBucket { credentials: Some((_, file)), .. })) => {
                *file = parent.join(&*file);
            }
            Some(ResultPlace::Bucket(ResultBucket { credentials: None, .. })) | None => {}
        }
    }
}

pub(super) fn parse(mut table: Table<'_>, problems: &mut Problems) -> Results {
    let mut results = Results::default();
    let dir = table.take("dir");
    let url = table.take("url");
    if let Some(value) = &dir
        && let Some(path) = value.path_text(problems)
    {
        if path.as_os_str().is_empty() {
            value.refuse(problems, "must name a directory");
        }
        results.place = Some(ResultPlace::Directory(path));
    }
    let mut bucket = None;
    if let Some(value) = url {
        match value.text(problems).map(bucket_of) {
            Some(Some(_)) if dir.is_some() => {
                value.refuse(problems, "is one too many: dir and url exclude each other")
            }
            Some(Some(found)) => bucket = Some(found),
            Some(None) => value.refuse(problems, "must be like \"s3://bucket\" or \"s3://bucket/prefix\""),
            None => {}
        }
    }
    let of_bucket = bucket_settings(&mut table, bucket.as_mut(), problems);
    if !of_bucket && let Some(bucket) = bucket {
        results.place = Some(ResultPlace::Bucket(bucket));
    }
    if let Some(value) = table.take("max_bytes") {
        results.max_bytes =
            value.integer(problems, limits::INLINE_BYTES as u64..=MOST_BYTES).unwrap_or(results.max_bytes);
    }
    if let Some(value) = table.take("sweep") {
        let read = value.duration(problems, SHORTEST_SWEEP..=LONGEST_SWEEP);
        results.sweep = read.unwrap_or(results.sweep);
    }
    table.finish(&[], problems);
    results
}

/// What only a bucket has. True: something is wrong with it.
fn bucket_settings(
    table: &mut Table<'_>,
    mut bucket: Option<&mut ResultBucket>,
    problems: &mut Problems,
) -> bool {
    let mut wrong = false;
    let mut credentials = (None, None);
    let mut at = 0;
    for key in ["endpoint", "region", "path_style", "access_key_id", "secret_access_key_file"] {
        let Some(value) = table.take(key) else { continue };
        let Some(bucket) = bucket.as_deref_mut() else {
            value.refuse(problems, "belongs to a bucket: give url as well");
            wrong = true;
            continue;
        };
        match key {
            "endpoint" => match value.text(problems) {
                Some(text) if is_url(text) => bucket.endpoint = Some(text.to_owned()),
                Some(_) => value.refuse(problems, "must be a URL such as \"https://s3.example\""),
                None => {}
            },
            "region" => bucket.region = value.text(problems).map(str::to_owned),
            "path_style" => bucket.path_style = value.flag(problems).unwrap_or_default(),
            "access_key_id" => {
                (credentials.0, at) = (value.text(problems).map(str::to_owned), value.at());
            }
            _ => (credentials.1, at) = (value.path_text(problems), value.at()),
        }
    }
    match (bucket, credentials) {
        (Some(bucket), (Some(id), Some(file))) => bucket.credentials = Some((id, file)),
        (Some(_), (Some(_), None) | (None, Some(_))) => {
            problems.add(
                at,
                "results.access_key_id",
                "and secret_access_key_file belong together: give both or none",
            );
            wrong = true;
        }
        (Some(_) | None, _) => {}
    }
    wrong
}

/// `s3://bucket/prefix`.
fn bucket_of(url: &str) -> Option<ResultBucket> {
    let rest = url.strip_prefix("s3://")?.trim_end_matches('/');
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let named = (3..=63).contains(&name.len()) && name.bytes().all(fine);
    let placed = prefix.is_empty()
        || prefix.len() <= 512
            && prefix
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != ".." && part.bytes().all(fine));
    (named && placed).then(|| ResultBucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: None,
        region: None,
        path_style: false,
        credentials: None,
    })
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()) && !rest.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parsed(lines: &str) -> Result<Results, String> {
        let parsed = Config::parse("server.toml", &format!("[results]\n{lines}"));
        parsed.map(|config| config.results).map_err(|error| error.to_string())
    }

    #[test]
    fn a_place_is_a_directory_or_a_bucket() {
        assert_eq!(parsed("").unwrap(), Results::default());
        let directory = parsed("dir = \"here\"\nmax_bytes = 262_144\nsweep = \"1s\"").unwrap();
        assert_eq!(directory.place, Some(ResultPlace::Directory("here".into())));
        assert_eq!((directory.max_bytes, directory.sweep), (262_144, Duration::from_secs(1)));
        let lines = [
            "url = \"s3://my-bucket/a/b/\"",
            "endpoint = \"http://127.0.0.1:9000\"",
            "region = \"eu\"",
            "path_style = true",
            "access_key_id = \"me\"",
            "secret_access_key_file = \"secret\"",
        ];
        let mut results = parsed(&lines.join("\n")).unwrap();
        results.relative_to(Path::new("/etc"));
        let bucket = ResultBucket {
            name: "my-bucket".to_owned(),
            prefix: "a/b".to_owned(),
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            region: Some("eu".to_owned()),
            path_style: true,
            credentials: Some(("me".to_owned(), "/etc/secret".into())),
        };
        assert_eq!(results.place, Some(ResultPlace::Bucket(bucket)));
    }

    #[test]
    fn every_mistake_names_its_key() {
        for (lines, key) in [
            ("dir = \"\"", "results.dir"),
            ("dir = 1", "results.dir"),
            ("dir = \"a\"\nurl = \"s3://bucket\"", "results.url"),
            ("url = \"https://bucket\"", "results.url"),
            ("url = \"s3://b\"", "results.url"),
            ("url = \"s3://bucket/a//b\"", "results.url"),
            ("url = \"s3://bucket/..\"", "results.url"),
            ("url = \"s3://bucket\"\nendpoint = \"bucket\"", "results.endpoint"),
            ("url = \"s3://bucket\"\nendpoint = \"http://me:word@host\"", "results.endpoint"),
            ("url = \"s3://bucket\"\npath_style = 1", "results.path_style"),
            ("url = \"s3://bucket\"\nregion = 1", "results.region"),
            ("url = \"s3://bucket\"\naccess_key_id = \"me\"", "results.access_key_id"),
            ("url = \"s3://bucket\"\nsecret_access_key_file = \"a\"", "results.access_key_id"),
            ("region = \"eu\"", "results.region"),
            ("max_bytes = 262_143", "results.max_bytes"),
            ("max_bytes = 5_368_709_121", "results.max_bytes"),
            ("sweep = \"999ms\"", "results.sweep"),
            ("sweep = \"25h\"", "results.sweep"),
            ("path = \"a\"", "results.path"),
        ] {
            let told = parsed(lines).expect_err(lines);
            assert!(told.lines().all(|line| line.contains(&format!(": {key}: "))), "{lines}: {told}");
        }
    }
}
