//! What the tests of the scheduler share: the script language, a world around the scheduler, a model of its store and
//! an oracle for placement.

mod agent;
mod closeness;
pub(crate) mod commands;
pub(crate) mod crons;
mod explained;
mod flows;
mod oracle;
mod pace;
mod rng;
mod script;
mod store;
mod trace;
mod webhooks;
mod words;
pub(crate) mod world;

pub(crate) use self::{
    agent::{Agent, Holding},
    closeness::Closeness,
    flows::members,
    rng::Rng,
    script::{Script, check, token_of},
    words::Line,
    world::World,
};
