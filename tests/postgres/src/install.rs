//! Where the programs of the Postgres server are, and as whom they run.

use std::{
    env, fs,
    io::{Error, Result},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The programs of one version.
#[derive(Debug, Clone)]
pub(crate) struct Install {
    programs: PathBuf,
    /// As whom: user and group. None: as ourselves.
    user: Option<(u32, u32)>,
}

impl Install {
    /// Looks where packages put them, the newest version first, then in the path.
    pub(crate) fn find() -> Result<Self> {
        let missing = "there is no Postgres server on this machine: install it (Debian, Ubuntu: apt-get install \
                       postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql), or put \
                       the directory of its `initdb` into PATH";
        let programs = packaged().or_else(in_path).ok_or_else(|| Error::other(missing))?;
        let user = if rustix::process::geteuid().is_root() { Some(postgres()?) } else { None };
        Ok(Self { programs, user })
    }

    /// A program of the version, to be run as whoever may.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.as_user(Command::new(self.path(name)))
    }

    /// Where the programs are.
    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    /// Where a program is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Another program, as whoever may.
    pub(crate) fn as_user(&self, mut command: Command) -> Command {
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // Nothing of the settings of a person's psql.
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command.current_dir("/");
        command
    }

    /// A program of the system, as ourselves.
    pub(crate) fn as_root(&self, name: &str) -> Command {
        Self { user: None, ..self.clone() }.as_user(Command::new(name))
    }

    /// What goes before the words of a program that is started as root and is to run as whoever may.
    pub(crate) fn become_user(&self) -> Vec<String> {
        let become_user = |(user, group): (u32, u32)| {
            let words = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
            ["setpriv".to_owned()].into_iter().chain(words).collect()
        };
        self.user.map(become_user).unwrap_or_default()
    }

    /// Gives a new directory to whoever the programs run as.
    pub(crate) fn own(&self, directory: &Path) -> Result<()> {
        self.user.map_or(Ok(()), |(user, group)| std::os::unix::fs::chown(directory, Some(user), Some(group)))
    }

    /// Whether that is who the programs run as.
    pub(crate) fn is_owner(&self, user: u32) -> bool {
        user == self.id()
    }

    fn id(&self) -> u32 {
        self.user.map_or_else(|| rustix::process::geteuid().as_raw(), |(user, _)| user)
    }

    /// Differs between versions and users.
    pub(crate) fn name(&self) -> String {
        let version = self.programs.to_string_lossy().replace(['/', '.'], "-");
        format!("{}-{}", version.trim_matches('-'), self.id())
    }
}

fn packaged() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |name: &str| name.parse::<u32>().ok();
    let versions = versions.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path())));
    let found = versions.map(|(number, path)| (number, path.join("bin")));
    found.filter(|(_, path)| path.join("initdb").exists()).max().map(|(_, path)| path)
}

fn in_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let found = env::split_paths(&path).find(|directory| directory.join("initdb").exists())?;
    // The other programs stand beside what a link leads to.
    fs::canonicalize(found.join("initdb")).ok()?.parent().map(Path::to_owned)
}

/// The ids of the user `postgres`, which the package makes.
fn postgres() -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    found.ok_or_else(|| Error::other("Postgres refuses to run as root, and there is no user postgres"))
}
