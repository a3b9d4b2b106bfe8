//! The agent's own part of the hierarchy: made at its start, as far as the host hands it over.
//!
//! Responsible for finding out what is possible, for controllers, and for what an earlier agent has left in it. Not
//! responsible for single attempts (`group.rs`).
//! Invariants: controllers of the cgroup above are changed only where it is handed over to this agent (delegated), or
//! where nobody else governs it; the agent moves itself alone, and only if the controllers cannot be had otherwise.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access, getxattr};
use rustix::io::Errno;

use super::group::{Cgroup, below, join, write};
use super::mounts::Own;
use super::{Containment, Controller, Place, Wanted, settings};
use crate::clock::{Clock, Mono};
use crate::shim::Limits;
use crate::shim::tag::{Owner, Tag};

/// What its name begins with; sixteen hex digits follow.
const PREFIX: &str = "tenure-";
/// The leaf of the agent itself.
const AGENT: &str = "agent";
/// The leaf of shims.
const SHIMS: &str = "shims";
/// Above the cgroups of attempts.
const ATTEMPTS: &str = "attempts";
/// What agent and shims weigh against all jobs together, which weigh 100: they only keep watch.
const WEIGHT: &str = "1000";
/// How long what an earlier agent left may hold up the start.
const STRAYS: Duration = Duration::from_secs(10);
/// How long shims that have nothing left to do may take to end.
const LEAVING: Duration = Duration::from_millis(200);

/// What an agent has of cgroups.
#[derive(Debug, Clone)]
pub struct Subtree {
    /// Absent: none, containment is weak.
    dir: Option<PathBuf>,
    controllers: Vec<Controller>,
    /// What is missing to full containment, for a person.
    shortfall: Option<String>,
    /// The agent left the cgroup that it was started in.
    moved: bool,
}

impl Subtree {
    /// No cgroups, and why.
    pub fn none(why: &str) -> Self {
        Self { dir: None, controllers: Vec::new(), shortfall: Some(why.to_owned()), moved: false }
    }

    /// Makes what this host allows, for the agent of a state directory, which exists. Blocks for some file accesses.
    pub fn prepare(wanted: Wanted, state_dir: &Path) -> Self {
        match wanted {
            Wanted::Auto => Self::prepare_at(Path::new("/"), state_dir),
            Wanted::None => Self::none("the node file says containment = \"none\""),
        }
    }

    /// Of a host whose files stand below `root`.
    fn prepare_at(root: &Path, state_dir: &Path) -> Self {
        make(root, state_dir).unwrap_or_else(|why| Self::none(&why))
    }

    /// How much it holds.
    pub fn containment(&self) -> Containment {
        let limits = [Controller::Memory, Controller::Pids];
        match &self.dir {
            None => Containment::Weak,
            Some(_) if limits.iter().all(|one| self.controllers.contains(one)) => Containment::Full,
            Some(_) => Containment::Partial,
        }
    }

    /// What is missing to full containment, and why.
    pub fn shortfall(&self) -> Option<&str> {
        self.shortfall.as_deref()
    }

    /// Where the attempt of this token goes. None: there are no cgroups.
    pub fn place(&self, token: u64, limits: &Limits) -> Option<Place> {
        let dir = self.dir.as_ref()?;
        Some(Place {
            shims: dir.join(SHIMS),
            attempt: dir.join(ATTEMPTS).join(token.to_string()),
            settings: settings(limits, &self.controllers),
        })
    }

    /// The keys of these limits that nothing enforces here. `root`: whether the command runs as root, whom the limit of
    /// threads that a process sets on itself does not bind.
    pub(crate) fn unenforced(&self, limits: &Limits, root: bool) -> Vec<&'static str> {
        let lacks = |controller| !self.controllers.contains(&controller);
        let all = [
            ("memory", limits.memory.is_some() && lacks(Controller::Memory)),
            ("tasks", limits.tasks.is_some() && lacks(Controller::Pids) && root),
            ("cpu", limits.cpu_millis.is_some() && lacks(Controller::Cpu)),
        ];
        all.into_iter().filter(|(_, missing)| *missing).map(|(key, _)| key).collect()
    }

    /// Kills and removes the cgroups of all attempts but these: nobody can list them. Whoever looks after one of these ends
    /// its cgroup, too, as its state file names it. Blocks until they are gone, for at most ten seconds altogether. Answers
    /// how many had something living.
    pub fn end_strays(&self, kept: &BTreeSet<u64>) -> usize {
        let Some(dir) = &self.dir else { return 0 };
        let is_stray = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.parse().ok()).is_some_and(|token: u64| !kept.contains(&token))
        };
        let strays = below(&dir.join(ATTEMPTS)).into_iter().filter(is_stray).map(Cgroup::at);
        end_all(strays.collect(), Clock::Monotonic.now() + STRAYS)
    }

    /// Removes it, if nothing is left in it: a shim may be about to start something. Blocks for a moment for shims whose
    /// attempt is gone. An agent that has moved stays: its unit's end removes it.
    pub fn leave(&self) {
        let Some(dir) = self.dir.as_ref().filter(|_| !self.moved) else { return };
        let deadline = Clock::Monotonic.now() + LEAVING;
        while Cgroup::at(dir.join(SHIMS)).is_populated().unwrap_or(true) {
            if !below(&dir.join(ATTEMPTS)).is_empty() || Clock::Monotonic.now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for one in below(&dir.join(ATTEMPTS)) {
            // One that is not empty is in use.
            fs::remove_dir(one).ok();
        }
        for leaf in [ATTEMPTS, SHIMS, AGENT] {
            fs::remove_dir(dir.join(leaf)).ok();
        }
        fs::remove_dir(dir).ok();
    }

    /// The cgroup below which this agent and its jobs are: the own one, or that above a leaf that is for the agent alone.
    pub(crate) fn base(mount: &Path, own: &Path) -> PathBuf {
        handed_over(mount, above_subtree(own))
    }
}

impl Cgroup {
    /// The one that a state file names, if it is one of an agent's attempts: that of this tag and token, and no other.
    pub(crate) fn recorded(dir: &Path, tag: &Tag, token: u64) -> Option<Self> {
        let parts: Vec<_> = dir.iter().rev().take(3).map(|part| part.to_str()).collect();
        let [own, attempts, subtree] = parts.as_slice() else { return None };
        let ours = *own == Some(token.to_string().as_str())
            && *attempts == Some(ATTEMPTS)
            && subtree.and_then(|name| name.strip_prefix(PREFIX)) == tag.owner();
        (ours && dir.is_absolute()).then(|| Self::at(dir.to_owned()))
    }
}

fn is_subtree(dir: &Path) -> bool {
    let digits = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Ends cgroups that nobody looks after, all at a time. Answers in how many something lived.
fn end_all(strays: Vec<Cgroup>, deadline: Mono) -> usize {
    // What cannot be read is tried to be killed all the same.
    let lives = |cgroup: &Cgroup| cgroup.is_populated().unwrap_or(true);
    let (mut living, empty): (Vec<_>, Vec<_>) = strays.into_iter().partition(lives);
    empty.iter().for_each(Cgroup::remove);
    let lived = living.len();
    for cgroup in &living {
        tracing::warn!(path = %cgroup.dir().display(), "killing an attempt that nobody looks after, by its cgroup");
    }
    loop {
        for cgroup in &living {
            if let Err(error) = cgroup.kill() {
                tracing::warn!(path = %cgroup.dir().display(), %error, "a cgroup cannot be killed");
            }
        }
        living.retain(|cgroup| {
            let lives = lives(cgroup);
            if !lives {
                cgroup.remove();
            }
            lives
        });
        if living.is_empty() {
            return lived;
        }
        if Clock::Monotonic.now() >= deadline {
            for cgroup in living {
                tracing::error!(path = %cgroup.dir().display(), "an attempt that nobody looks after cannot be killed");
            }
            return lived;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Makes the subtree, or says why there is none.
fn make(root: &Path, state_dir: &Path) -> Result<Subtree, String> {
    let owner =
        Owner::of(state_dir).map_err(|error| format!("the state directory cannot be read: {error}"))?;
    let own = Own::find(root, None).ok_or("no cgroup file system of version 2 is mounted")?;
    let inside = own.inside.as_deref().ok_or("the own cgroup is outside of what is mounted here")?;
    let base = Subtree::base(&own.point, &own.point.join(inside));
    let at = base.display();
    // The kernel asks for this right when a process is moved below; without it nobody could join.
    access(base.join("cgroup.procs"), Access::WRITE_OK).map_err(|error| {
        format!("the own cgroup {at} belongs to somebody else ({error}): run the agent as a unit with Delegate=yes")
    })?;
    let dir = base.join(format!("{PREFIX}{}", owner.as_str()));
    for one in [dir.clone(), dir.join(AGENT), dir.join(SHIMS), dir.join(ATTEMPTS)] {
        make_one(&one).map_err(|error| format!("no cgroup can be made in {at}: {error}"))?;
    }
    let kind = fs::read_to_string(dir.join(ATTEMPTS).join("cgroup.type")).unwrap_or_default();
    if kind.trim() != "domain" {
        return Err(format!("the own cgroup {at} is for threads: its part is \"{}\"", kind.trim()));
    }
    let delegated = is_delegated(root, &own.point, &base);
    let opened = if delegated { open_up(&base, &dir.join(AGENT)) } else { Opened::Stayed };
    turn_on(&dir, &available(&dir));
    turn_on(&dir.join(ATTEMPTS), &available(&dir.join(ATTEMPTS)));
    for leaf in [AGENT, SHIMS] {
        for (file, value) in [("cpu.weight", WEIGHT.to_owned()), ("io.weight", format!("default {WEIGHT}"))] {
            // Where the controller, or the scheduler of the disk, has no weights there are none.
            write(&dir.join(leaf).join(file), &value).ok();
        }
    }
    let controllers: Vec<_> = on(&dir.join(ATTEMPTS));
    let missing: Vec<_> = [Controller::Memory, Controller::Pids, Controller::Cpu]
        .into_iter()
        .filter(|controller| !controllers.contains(controller))
        .map(Controller::as_str)
        .collect();
    let why = match opened {
        Opened::Stayed if !delegated => "is not handed over (Delegate=yes) in",
        Opened::Stayed | Opened::Moved => "is not to be had in",
        Opened::Crowded => "is not handed down while other processes are in",
    };
    let shortfall = (!missing.is_empty()).then(|| format!("{} {why} {at}", missing.join(", ")));
    Ok(Subtree { dir: Some(dir), controllers, shortfall, moved: opened == Opened::Moved })
}

/// The cgroup that the agent was started in, also if it stands in the leaf of an agent already.
fn above_subtree(own: &Path) -> PathBuf {
    let leaf = own.file_name().is_some_and(|name| name == AGENT);
    let subtree = own.parent().filter(|parent| leaf && is_subtree(parent));
    subtree.and_then(Path::parent).unwrap_or(own).to_owned()
}

/// The cgroup that a service manager hands over: the own one, or that above it where the manager has put the agent into a
/// leaf already (`DelegateSubgroup=`).
fn handed_over(mount: &Path, own: PathBuf) -> PathBuf {
    let leaf =
        own != mount && !says_delegated(&own) && own.file_name().is_some_and(|name| name != "init.scope");
    match own.parent().filter(|parent| leaf && says_delegated(parent)) {
        Some(parent) => parent.to_owned(),
        None => own,
    }
}

/// What systemd writes on a cgroup that it will not govern any more.
fn says_delegated(dir: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].into_iter().any(|name| {
        let mut value = [0; 8];
        getxattr(dir, name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

fn make_one(dir: &Path) -> io::Result<()> {
    DirBuilder::new()
        .create(dir)
        .or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

/// Whether the agent may govern its cgroup: systemd says so, or nobody governs it. Elsewhere systemd may change it back at
/// any time, so nothing is to depend on it.
fn is_delegated(root: &Path, mount: &Path, base: &Path) -> bool {
    let own = rustix::process::geteuid();
    let owns =
        |dir: &Path| !own.is_root() && fs::metadata(dir).is_ok_and(|facts| facts.uid() == own.as_raw());
    // The root of what is mounted: the whole host's, which only root can write, or a container's own.
    base == mount
        || !root.join("run/systemd/system").exists()
        || says_delegated(base)
        // An older systemd says it to root alone. What it gave away is ours and what is above is not.
        || owns(base) && base.parent().is_some_and(|above| !owns(above))
}

/// Hands the controllers of the own cgroup down. A cgroup with processes cannot, but for the host's root: then the agent
/// moves into its leaf, and back if that did not help.
fn open_up(base: &Path, leaf: &Path) -> Opened {
    let wanted = available(base);
    if turn_on(base, &wanted) != Refused::Busy {
        return Opened::Stayed;
    }
    if let Err(error) = join(leaf) {
        tracing::warn!(path = %leaf.display(), %error, "the agent cannot move into its own cgroup");
        return Opened::Crowded;
    }
    if turn_on(base, &wanted) != Refused::Busy {
        return Opened::Moved;
    }
    if let Err(error) = join(base) {
        tracing::warn!(path = %base.display(), %error, "the agent cannot move back into its own cgroup");
    }
    Opened::Crowded
}

/// What became of the wish to hand controllers down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// The agent is where it was.
    Stayed,
    /// It is in its leaf.
    Moved,
    /// It is where it was, as others are, who keep the kernel from it.
    Crowded,
}

/// What became of a wish for controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// All are on, or cannot be had.
    Otherwise,
    /// There are processes in it.
    Busy,
}

/// Turns on for the cgroups below what is not on yet, each by itself: one that cannot be had keeps no other away.
fn turn_on(dir: &Path, wanted: &[Controller]) -> Refused {
    let present = on(dir);
    let mut refused = Refused::Otherwise;
    for controller in wanted.iter().filter(|controller| !present.contains(controller)) {
        let line = format!("+{}", controller.as_str());
        if write(&dir.join("cgroup.subtree_control"), &line)
            .is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
        {
            refused = Refused::Busy;
        }
    }
    refused
}

/// The controllers that a cgroup could hand down.
fn available(dir: &Path) -> Vec<Controller> {
    named(&dir.join("cgroup.controllers"))
}

/// Those that it does.
fn on(dir: &Path) -> Vec<Controller> {
    named(&dir.join("cgroup.subtree_control"))
}

fn named(file: &Path) -> Vec<Controller> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let words: BTreeSet<&str> = text.split_whitespace().collect();
    Controller::ALL.into_iter().filter(|controller| words.contains(controller.as_str())).collect()
}

#[cfg(test)]
mod tests;
