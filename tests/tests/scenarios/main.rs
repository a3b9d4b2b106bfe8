//! What the product promises, shown on real processes. One file per promise; each scenario ends with the server's own
//! invariants, the oracle over what its jobs wrote, and a look for processes left running.

mod adopt;
mod bucket;
mod cap;
mod children;
mod commands;
mod database;
mod dedupe;
mod examples;
mod followers;
mod health;
mod hostile;
mod hosts;
mod identities;
mod inbox;
mod indexes;
mod input;
mod inside;
mod jobs;
mod leaders;
mod limits;
mod links;
mod logs;
mod losses;
mod older;
mod once;
mod oracle;
mod points;
mod poison;
mod postgres;
mod pressure;
mod python;
mod quickstart;
mod restart;
mod results;
mod seed;
mod socket;
mod stop;
mod storm;
mod times;
mod upgrade;
#[cfg(target_os = "linux")]
mod walls;
mod webhooks;
mod workers;
mod workflows;
