//! The tests of the scheduler: scripts with the traces that they must leave, and histories at random. One binary, so
//! that their support is built once.

#[cfg(test)]
mod backoff;
#[cfg(test)]
mod bracket;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod cancel;
#[cfg(test)]
mod cron;
#[cfg(test)]
mod earmarks;
#[cfg(test)]
mod enqueue;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod instance;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod order;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod park;
#[cfg(test)]
mod place;
#[cfg(test)]
mod random;
#[cfg(test)]
mod rate;
#[cfg(test)]
mod report;
#[cfg(test)]
mod requeue;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod room;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod score;
#[cfg(test)]
mod session;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod stale;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod throttle;
#[cfg(test)]
mod told;
#[cfg(test)]
mod waits;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod workflows;
