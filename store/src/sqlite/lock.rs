//! The OS lock beside the database: one process, one writer.

use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use super::Error;

/// Held for as long as it lives, by this process only; the system gives it back when the process ends, however.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

/// Takes the lock of a database.
///
/// # Errors
/// If another holds it, or the lock file cannot be opened.
pub(super) fn take(database: &Path) -> Result<Lock, Error> {
    let path = beside(database);
    let failed = |source| Error::Lock { path: path.clone(), source };
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => {
            return Err(Error::InUse { path: database.into(), holder: holder(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    // For the sentence that the next one gets.
    file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(Lock(file))
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// The process id that the holder wrote; none if it is about to.
fn holder(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(20).read_to_string(&mut text).ok()?;
    Some(text).filter(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}
