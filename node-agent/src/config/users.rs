//! Users of this host, by name or number.
//!
//! Responsible for `/etc/passwd` and `/etc/group`, read as files: the safe way without a C library's look-up, so users
//! of a directory service are found by number only. Not responsible for becoming a user (`exec_stage.rs`).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A user to run a kind as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name; the number where it has none.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// Its home directory; `/` where it has none.
    pub home: PathBuf,
}

impl Account {
    /// Whether the permissions of a directory let this user search it. Root always may; a directory that cannot be
    /// looked at counts as open.
    pub(crate) fn may_enter(&self, directory: &Path) -> bool {
        let Ok(facts) = std::fs::metadata(directory) else { return true };
        let bit = if facts.uid() == self.uid {
            0o100
        } else if facts.gid() == self.gid || self.groups.contains(&facts.gid()) {
            0o010
        } else {
            0o001
        };
        self.uid == 0 || facts.mode() & bit != 0
    }
}

/// The number of a user given by name or number.
pub fn lookup_uid(user: &str) -> Option<u32> {
    lookup(user).map(|account| account.uid)
}

/// The user given by name or number. A number without an entry gets the group of the same number.
pub(super) fn lookup(user: &str) -> Option<Account> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    find(user, &read("/etc/passwd"), &read("/etc/group"))
}

/// The user that this process is.
pub fn own() -> Account {
    let uid = rustix::process::geteuid().as_raw();
    let home = PathBuf::from("/");
    let unknown = Account {
        name: uid.to_string(),
        uid,
        gid: rustix::process::getegid().as_raw(),
        groups: Vec::new(),
        home,
    };
    lookup(&uid.to_string()).unwrap_or(unknown)
}

fn find(user: &str, passwd: &str, group: &str) -> Option<Account> {
    let number: Option<u32> = user.parse().ok();
    let entry = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let &[name, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let home = PathBuf::from(if home.is_empty() { "/" } else { home });
        let same = name == user || number == Some(uid);
        same.then(|| Account { name: name.to_owned(), uid, gid, groups: Vec::new(), home })
    });
    let Some(mut account) = entry else {
        let uid = number?;
        return Some(Account {
            name: user.to_owned(),
            uid,
            gid: uid,
            groups: Vec::new(),
            home: PathBuf::from("/"),
        });
    };
    let groups = group.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let &[_, _, gid, members] = fields.as_slice() else { return None };
        members.split(',').any(|member| member == account.name).then(|| gid.parse().ok())?
    });
    account.groups = groups.filter(|&gid| gid != account.gid).collect();
    Some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nqa:x:1001:100::/home/qa:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:qa\nvideo:x:44:root,qa\n";

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let qa = find("qa", PASSWD, GROUP).unwrap();
        assert_eq!((qa.uid, qa.gid, qa.groups.as_slice()), (1001, 100, [44].as_slice()));
        assert_eq!(find("1001", PASSWD, GROUP), Some(qa));
        assert_eq!(find("nobody", PASSWD, GROUP), None);
        assert_eq!(find("4242", PASSWD, GROUP).unwrap().gid, 4242);
    }
}
