//! `tenure job result`: the bytes that a job left, to stdout or into a file.

use std::path::{Path, PathBuf};

use tenure_client::proto::{GetResultResponse, ResultHead};
use tenure_client::{Client, Error, ResultStream, proto};
use tokio::io::AsyncWriteExt as _;

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Output, note};

/// Shows a result. One that no message holds is read as a stream.
pub(super) async fn show(
    id: &str,
    out: Option<PathBuf>,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    match client.result(id).await {
        Ok(result) => inline(result, out, output).await,
        Err(Error::Refused(refusal)) if refusal.reason == "RESULT_TOO_LARGE" => {
            large(client.read_result(id).await?, out, output).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn inline(result: proto::Result, out: Option<PathBuf>, output: &Output) -> Result<Exit, Failure> {
    say_partial(result.partial);
    if let Some(path) = out {
        std::fs::write(&path, &result.data)
            .map_err(|source| Failure::Write { path: path.clone(), source })?;
        note(format!("{} written to {}", human::bytes(result.data.len() as u64), path.display()));
    } else if output.is_data() {
        output.message(&GetResultResponse { result: Some(result) })?;
    } else if output.is_terminal() && !is_plain_text(&result.data) {
        return Err(Failure::Usage("the result is no plain text; use --out FILE, or a pipe".to_owned()));
    } else {
        output.bytes(&result.data)?;
        if output.is_terminal() && !result.data.ends_with(b"\n") {
            note("");
        }
    }
    Ok(Exit::Ok)
}

async fn large(stream: ResultStream, out: Option<PathBuf>, output: &Output) -> Result<Exit, Failure> {
    let ResultHead { size, partial, .. } = *stream.head();
    say_partial(partial);
    let size = human::bytes(size);
    match out {
        Some(path) => {
            let part = beside(&path);
            let written = into_file(stream, &part).await;
            let moved = match written {
                Ok(()) => std::fs::rename(&part, &path)
                    .map_err(|source| Failure::Write { path: path.clone(), source }),
                Err(failure) => Err(failure),
            };
            if moved.is_err() {
                // It may never have been made.
                drop(std::fs::remove_file(&part));
            }
            moved?;
            note(format!("{size} written to {}", path.display()));
        }
        None if output.is_data() => {
            return Err(Failure::Usage(format!(
                "the result has {size}, more than one message holds; use --out FILE"
            )));
        }
        None if output.is_terminal() => {
            return Err(Failure::Usage(format!("the result has {size}; use --out FILE, or a pipe")));
        }
        None => to_stdout(stream, output).await?,
    }
    Ok(Exit::Ok)
}

async fn to_stdout(mut stream: ResultStream, output: &Output) -> Result<(), Failure> {
    while let Some(bytes) = stream.next().await? {
        output.bytes(&bytes)?;
    }
    Ok(())
}

/// All of it, on the disk.
async fn into_file(mut stream: ResultStream, path: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.to_owned(), source };
    let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
    while let Some(bytes) = stream.next().await? {
        file.write_all(&bytes).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    file.sync_all().await.map_err(failed)
}

/// Where a file is written until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

fn say_partial(partial: bool) {
    if partial {
        note("it is partial: its attempt had been asked to wrap up, or was stopped, before it was done");
    }
}

/// Text that does a terminal no harm.
fn is_plain_text(data: &[u8]) -> bool {
    std::str::from_utf8(data).is_ok_and(|text| {
        text.lines().all(|line| human::clean(&line.replace('\t', " ")) == line.replace('\t', " "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reaches_a_terminal_only_if_it_is_plain() {
        assert!(is_plain_text("two\tlines\nof täxt\n".as_bytes()));
        assert!(!is_plain_text(b"\x1b]0;title\x07"));
        assert!(!is_plain_text(&[0xff, 0xfe]));
    }

    #[test]
    fn what_is_not_whole_stands_beside_what_it_will_be() {
        let part = beside(Path::new("/a/b.bin"));
        assert_eq!(part.parent(), Some(Path::new("/a")));
        assert!(part.to_string_lossy().starts_with("/a/b.bin."), "{}", part.display());
    }
}
