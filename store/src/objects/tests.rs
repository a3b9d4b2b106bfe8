//! Objects in a real directory.

mod bucket;

use std::collections::BTreeSet;

use ring::digest::{SHA256, digest};
use uuid::Uuid;

use super::*;

fn named(bytes: &[u8]) -> ObjectName {
    let sha256 = Sha256(digest(&SHA256, bytes).as_ref().try_into().unwrap());
    ObjectName { job: JobId(Uuid::from_u128(7)), token: FencingToken(1 << 40 | 3), sha256 }
}

fn here() -> (tempfile::TempDir, Objects) {
    let home = tempfile::tempdir().unwrap();
    let objects = Objects::open(&Place::Directory(home.path().join("results"))).unwrap();
    (home, objects)
}

async fn put(objects: &Objects, bytes: &[u8], chunk: usize) -> ObjectName {
    let name = named(bytes);
    let mut upload = objects.write(name, bytes.len() as u64);
    for bytes in bytes.chunks(chunk) {
        upload.write(Bytes::copy_from_slice(bytes)).await.unwrap().unwrap();
    }
    upload.finish().await.unwrap().unwrap();
    name
}

async fn bytes_of(objects: &Objects, name: ObjectName) -> Vec<u8> {
    let chunks: Vec<Bytes> = objects.read(name).await.unwrap().try_collect().await.unwrap();
    chunks.concat()
}

async fn all(objects: &Objects) -> BTreeSet<ObjectName> {
    objects.list().try_collect().await.unwrap()
}

fn files(home: &tempfile::TempDir) -> usize {
    std::fs::read_dir(home.path().join("results")).unwrap().count()
}

#[test]
fn a_name_is_read_back_in_its_one_form() {
    let name = named(b"x");
    assert_eq!(name.to_string().parse(), Ok(name));
    let upper = name.to_string().to_uppercase();
    let zero = name.to_string().replacen(".1", ".01", 1);
    for other in ["", "a.b.c", &upper, &zero, &format!("{name}.1"), &format!("{name}#1")] {
        assert_eq!(other.parse::<ObjectName>(), Err(NoName), "{other}");
    }
}

#[tokio::test]
async fn what_is_written_is_read_back_whatever_its_size() {
    let (home, objects) = here();
    let large: Vec<u8> = (0..20_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 4]).collect();
    for bytes in [&large[..], b"small", b""] {
        let name = put(&objects, bytes, 256 * 1024).await;
        assert!(objects.contains(name).await.unwrap());
        assert!(bytes_of(&objects, name).await == bytes, "{} bytes come back changed", bytes.len());
        // The same again changes nothing.
        assert_eq!(put(&objects, bytes, 1 << 20).await, name);
        assert_eq!(all(&objects).await, BTreeSet::from([name]));
        objects.remove(name).await.unwrap();
        objects.remove(name).await.unwrap();
        assert!(matches!(objects.read(name).await, Err(Error::Missing(missing)) if missing == name));
    }
    assert_eq!(files(&home), 0);
}

#[tokio::test]
async fn what_is_not_as_announced_is_not_stored_and_leaves_nothing() {
    let (home, objects) = here();
    let bytes = vec![7; 9 * 1024 * 1024];
    for (announced, name, want) in [
        (bytes.len() as u64 + 1, named(&bytes), NotWhole::TooFew(1)),
        (bytes.len() as u64, named(b"other"), NotWhole::Others),
    ] {
        let mut upload = objects.write(name, announced);
        upload.write(bytes.clone().into()).await.unwrap().unwrap();
        assert_eq!(upload.finish().await.unwrap(), Err(want));
        assert!(!objects.contains(name).await.unwrap());
    }
    let mut upload = objects.write(named(&bytes), 3);
    assert_eq!(upload.write(bytes.into()).await.unwrap(), Err(NotWhole::TooMany));
    upload.abort().await;
    assert_eq!(files(&home), 0);
}

#[tokio::test]
async fn only_what_was_left_unfinished_long_ago_is_removed() {
    let (home, objects) = here();
    let name = put(&objects, b"whole", 5).await;
    let beside = |file: String| std::fs::write(home.path().join("results").join(file), b"part").unwrap();
    beside(format!("{name}#1"));
    beside("somebody#1".to_owned());
    let now = std::fs::metadata(home.path().join("results")).unwrap().modified().unwrap();
    assert_eq!(objects.remove_unfinished(now).await.unwrap(), 0);
    assert_eq!(objects.remove_unfinished(now + LEFT_FOR + Duration::from_secs(60)).await.unwrap(), 1);
    assert_eq!(all(&objects).await, BTreeSet::from([name]));
    assert_eq!(files(&home), 2);
}

#[test]
fn a_directory_is_made_for_its_owner_alone_and_one_that_is_there_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let made = home.path().join("data").join("results");
    Objects::open(&Place::Directory(made.clone())).unwrap();
    assert_eq!(mode(&made), 0o700);
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o750)).unwrap();
    Objects::open(&Place::Directory(made.clone())).unwrap();
    assert_eq!(mode(&made), 0o750, "others may need it");
    let file = home.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(matches!(Objects::open(&Place::Directory(file)), Err(Error::Directory { .. })));
}
