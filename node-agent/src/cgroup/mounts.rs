//! Where the cgroups of this process are: its own path in each hierarchy, and where that hierarchy is mounted.
//!
//! Responsible for reading `mountinfo` and the own path, also on hosts that mount both versions, in containers and below
//! a cgroup namespace. Not responsible for what the directories hold.
//! Invariant: a path that is not inside of what is mounted is never taken for one that is.

use std::fs;
use std::path::{Path, PathBuf};

/// The own cgroup in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// Where the hierarchy, or the part of it that can be seen, is mounted.
    pub(crate) point: PathBuf,
    /// The own path below that, without a slash at either end. None: it is outside, as another namespace's is.
    pub(crate) inside: Option<String>,
}

impl Own {
    /// Of the process that `proc/self` below `root` stands for: in the hierarchy of a controller of version 1, or
    /// without one in that of version 2. None: there is none.
    pub(crate) fn find(root: &Path, v1: Option<&str>) -> Option<Self> {
        let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
        let path = own_path(&own, v1)?;
        let mut fitting = mounts.lines().filter_map(Mount::parse).filter(|mount| mount.holds(v1));
        let mount = fitting.next()?;
        let point = root.join(mount.point.trim_start_matches('/'));
        Some(Self { point, inside: mount.inside(path).map(str::to_owned) })
    }

    /// From the own cgroup up to the mount point, as far as they are there.
    pub(crate) fn chain(&self) -> Vec<PathBuf> {
        let own = self.point.join(self.inside.as_deref().unwrap_or_default());
        own.ancestors()
            .take_while(|dir| dir.starts_with(&self.point))
            .filter(|dir| dir.is_dir())
            .map(Path::to_owned)
            .collect()
    }
}

/// The own path in the hierarchy of a controller of version 1, or in that of version 2.
fn own_path<'a>(own: &'a str, v1: Option<&str>) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match v1 {
            None => number == "0" && controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        ours.then_some(path)
    })
}

/// A line of `mountinfo` that is about cgroups.
struct Mount<'a> {
    /// Which directory of the hierarchy is mounted.
    root: &'a str,
    /// Where.
    point: &'a str,
    /// Absent for version 2.
    controllers: Option<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let controllers = match kind.next()? {
            "cgroup2" => None,
            "cgroup" => Some(kind.nth(1)?),
            _ => return None,
        };
        Some(Self { root, point, controllers })
    }

    fn holds(&self, v1: Option<&str>) -> bool {
        match (self.controllers, v1) {
            (None, None) => true,
            (Some(options), Some(controller)) => options.split(',').any(|option| option == controller),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    fn inside<'p>(&self, path: &'p str) -> Option<&'p str> {
        let inside = path.strip_prefix(self.root.trim_end_matches('/'))?;
        let whole = inside.is_empty() || inside.starts_with('/');
        (whole && inside.split('/').all(|part| part != "..")).then(|| inside.trim_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(root: &str, path: &str) -> Option<String> {
        let line = format!("38 31 0:31 {root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate");
        Mount::parse(&line).unwrap().inside(path).map(str::to_owned)
    }

    #[test]
    fn a_path_counts_only_inside_of_what_is_mounted() {
        assert_eq!(inside("/", "/"), Some(String::new()));
        assert_eq!(inside("/", "/a/b"), Some("a/b".to_owned()));
        assert_eq!(inside("/docker/x", "/docker/x/agent"), Some("agent".to_owned()));
        assert_eq!(inside("/docker/x", "/docker/xy"), None);
        assert_eq!(inside("/", "/../../other"), None);
    }
}
