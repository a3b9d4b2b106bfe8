//! What the product promises, shown on real processes. One file per promise; each scenario ends with the server's own
//! invariants, the oracle over what its jobs wrote, and a look for processes left running.

mod adopt;
mod cap;
mod commands;
mod database;
mod dedupe;
mod examples;
mod followers;
mod health;
mod hostile;
mod hosts;
mod identities;
mod indexes;
mod input;
mod jobs;
mod leaders;
mod links;
mod losses;
mod older;
mod oracle;
mod poison;
mod postgres;
mod pressure;
mod quickstart;
mod restart;
mod seed;
mod stop;
mod storm;
mod times;
mod workflows;
