//! What a process takes: memory and processor time, as the kernel counts them.

use std::fs;

use anyhow::{Context as _, ensure};
use rustix::process::Pid;

use crate::machine::value_of;

/// What the kernel counts processor time in, in a second. Fixed for programs, whatever its own clock.
const TICKS: f64 = 100.0;

/// Bytes that a process has in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory {
    /// All of it, the text of its binary included.
    Resident,
    /// What no file stands behind.
    Anonymous,
}

/// Of a process, in bytes.
///
/// # Errors
/// If it is gone.
pub(crate) fn memory(pid: Pid, which: Memory) -> anyhow::Result<f64> {
    let name = match which {
        Memory::Resident => "VmRSS",
        Memory::Anonymous => "RssAnon",
    };
    let file = format!("/proc/{}/status", pid.as_raw_nonzero());
    let kib = value_of(&file, name).and_then(|kib| kib.split(' ').next()?.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{file} has no {name}"))? * 1024.0)
}

/// Processor time so far, its own and the kernel's for it, in seconds.
///
/// # Errors
/// If it is gone.
pub(crate) fn processor_seconds(pid: Pid) -> anyhow::Result<f64> {
    let file = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = fs::read_to_string(&file)?;
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = fields.map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ticks.len() == 2, "{file} is cut short");
    Ok(ticks.iter().sum::<f64>() / TICKS)
}
