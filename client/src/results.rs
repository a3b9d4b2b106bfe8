//! Results of any size, as a stream.

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use tenure_proto::v1::{ReadResultRequest, ReadResultResponse, ResultHead, read_result_response::Part};
use tonic::Streaming;

use crate::retry::rpc;
use crate::{Client, Error, Refusal};

/// A result that is being read. Made by [`Client::read_result`].
///
/// ```no_run
/// # async fn example(client: &tenure_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut result = client.read_result("0199a5b2-7c00-7000-8000-000000000000").await?;
/// println!("{} bytes of {}", result.head().size, result.head().content_type);
/// while let Some(bytes) = result.next().await? {
///     println!("{} more", bytes.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct ResultStream {
    head: ResultHead,
    stream: Streaming<ReadResultResponse>,
    /// Bytes that are still to come.
    left: u64,
    /// None: all bytes came, and were compared.
    sum: Option<Context>,
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream")
            .field("head", &self.head)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// What is said of a stream that is not as its beginning announced.
const fn lacks(missing: &'static str) -> Error {
    Error::Answer { rpc: "read_result", missing }
}

impl Client {
    /// The result of a succeeded job, whatever its size: what it is, then its bytes as they are asked for.
    ///
    /// # Errors
    /// NOT_FOUND if there is none, or not any more; RESULT_LOST if object storage has lost it.
    pub async fn read_result(&self, job_id: &str) -> Result<ResultStream, Error> {
        let request = ReadResultRequest { job_id: job_id.to_owned() };
        let mut stream = rpc!(self, jobs.read_result, request).await?.value;
        let Some(Part::Head(head)) = message(&mut stream).await? else { return Err(lacks("head")) };
        Ok(ResultStream { left: head.size, head, stream, sum: Some(Context::new(&SHA256)) })
    }
}

impl ResultStream {
    /// What it is.
    pub fn head(&self) -> &ResultHead {
        &self.head
    }

    /// The next bytes, at most 256 KiB; none once all have come and are what their checksum says.
    ///
    /// # Errors
    /// What the server says, UNAVAILABLE if the connection breaks: read it from the beginning then. If the bytes are not those of
    /// the checksum: what was read so far is worth nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(sum) = &mut self.sum else { return Ok(None) };
        match message(&mut self.stream).await? {
            Some(Part::Data(bytes)) => {
                let left = self.left.checked_sub(bytes.len() as u64);
                self.left = left.ok_or(lacks("end where its head says"))?;
                sum.update(&bytes);
                Ok(Some(bytes))
            }
            Some(Part::Head(_)) => Err(lacks("bytes after its head")),
            None if self.left > 0 => Err(lacks("end where its head says")),
            None => match self.sum.take() {
                Some(sum) if sum.clone().finish().as_ref() != &*self.head.sha256 => {
                    // It stays wrong, however often it is asked.
                    self.sum = Some(sum);
                    Err(lacks("bytes that its checksum names"))
                }
                Some(_) | None => Ok(None),
            },
        }
    }

    /// All that is left, in memory.
    ///
    /// # Errors
    /// As [`ResultStream::next`].
    pub async fn collect(mut self) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}

async fn message(stream: &mut Streaming<ReadResultResponse>) -> Result<Option<Part>, Error> {
    let refused = |status| Error::Refused(Box::new(Refusal::from_status(&status)));
    let message = stream.message().await.map_err(refused)?;
    Ok(message.and_then(|message| message.part))
}
