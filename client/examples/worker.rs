//! Runs attempts inside this process, until Ctrl-C: `greet` says hello to its payload, `gather` says what those said who came
//! before it in its workflow, `sleepy` sleeps until it is stopped.
//!
//! `cargo run -p tenure-client --example worker -- SOCKET`, with the socket that the agent names in its log. The three kinds
//! are `worker = true` in the node file.

use std::error::Error;
use std::time::Duration;

use tenure_client::worker::{Attempt, Failure, Output, Worker};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).ok_or("usage: worker SOCKET")?;
    let stop = CancellationToken::new();
    let run = run(&socket, stop.clone());
    tokio::pin!(run);
    tokio::select! {
        ended = &mut run => return Ok(ended?),
        caught = tokio::signal::ctrl_c() => caught?,
    }
    stop.cancel();
    Ok(run.await?)
}

pub(crate) async fn run(socket: &str, stop: CancellationToken) -> Result<(), tenure_client::worker::Error> {
    let worker = Worker::at(socket).concurrency(4);
    worker.job("greet", greet).job("gather", gather).job("sleepy", sleepy).run(stop).await
}

async fn greet(attempt: Attempt) -> Result<Output, Failure> {
    let name =
        std::str::from_utf8(&attempt.payload).map_err(|_| Failure::permanent("the name is no text"))?;
    if name.is_empty() {
        return Err(Failure::retry("nobody is there yet").after(Duration::from_millis(200)));
    }
    attempt.add_usage("tokens", 12).await?;
    Ok(Output::text(format!("Hello, {name}!")))
}

async fn gather(attempt: Attempt) -> Result<Output, Failure> {
    let said = attempt.inputs.iter().filter_map(|input| input.result.as_ref());
    let said: Vec<_> = said.map(|result| String::from_utf8_lossy(&result.data)).collect();
    Ok(Output::text(said.join(" ")))
}

async fn sleepy(attempt: Attempt) -> Result<Output, Failure> {
    attempt.stop.cancelled().await;
    Err(Failure::retry("woken up"))
}
