//! Contexts: servers by name, so that nobody types addresses and certificates.
//!
//! Responsible for: the file, which context is in force, and that writes to a protected one name it. Not responsible for
//! what flags and environment say instead; they win, setting by setting (`target.rs`).
//! Invariant: the file is replaced whole, readable by its owner alone, and never read while others may write it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Failure};
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// All contexts; the one in use is marked.
    List,
    /// Uses a context from now on, wherever no other is named.
    Use {
        /// Its name.
        name: String,
    },
    /// Adds a context of --server, --tls-ca, --tls-cert, --tls-key and --insecure.
    Add {
        /// Its name.
        name: String,
        /// Shown before each write, in this colour.
        #[arg(long, value_enum)]
        colour: Option<Colour>,
        /// Writes must name it by --context.
        #[arg(long)]
        protected: bool,
        /// Takes the place of a context with this name.
        #[arg(long)]
        replace: bool,
    },
    /// Removes a context.
    Remove {
        /// Its name.
        name: String,
    },
}

/// The colour of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

/// One server, by its name. Paths are relative to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// Its address; of several that are one fleet, all of them with commas between.
    pub(crate) server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Speaks beyond loopback without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) colour: Option<Colour>,
    /// Writes must name it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) protected: bool,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    /// The one in use where none is named.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    in_use: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

/// What is wrong with the file, and where.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It cannot be read.
    #[error("{}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Somebody else could send what is meant for one server to another.
    #[error("{}: others may write it (mode {mode:03o}); chmod 600 it", path.display())]
    Mode { path: PathBuf, mode: u32 },
    /// It is no such file.
    #[error("{}:{line}: {key}: {problem}", path.display())]
    Malformed { path: PathBuf, line: usize, key: String, problem: String },
}

impl Colour {
    /// Text in this colour, for a terminal.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
            Self::Magenta => 35,
            Self::Cyan => 36,
        };
        format!("\u{1b}[1;{code}m{text}\u{1b}[0m")
    }

    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The context that is named, else the one in use; none if neither is there.
pub(crate) fn in_force(global: &Global) -> Result<Option<(String, Context)>, Failure> {
    let Some(path) = file(global) else {
        return match &global.context {
            Some(name) => Err(unknown(name, &Contents::default())),
            None => Ok(None),
        };
    };
    let contents = read(&path)?;
    let Some(name) = global.context.clone().or_else(|| contents.in_use.clone()) else { return Ok(None) };
    let Some(context) = contents.contexts.get(&name) else { return Err(unknown(&name, &contents)) };
    let beside = path.parent().unwrap_or(Path::new("."));
    let resolved = |file: &Option<PathBuf>| file.as_ref().map(|file| beside.join(file));
    let context = Context {
        tls_ca: resolved(&context.tls_ca),
        tls_cert: resolved(&context.tls_cert),
        tls_key: resolved(&context.tls_key),
        ..context.clone()
    };
    Ok(Some((name, context)))
}

/// Runs one verb.
pub(crate) fn run(command: ContextCommand, global: &Global, output: &Output) -> Result<Exit, Failure> {
    let path = file(global).ok_or_else(|| {
        Failure::Usage("there is no home directory; name the file by --context-file".to_owned())
    })?;
    let mut contents = read(&path)?;
    match command {
        ContextCommand::List => return list(&contents, global, output),
        ContextCommand::Use { name } => {
            if !contents.contexts.contains_key(&name) {
                return Err(unknown(&name, &contents));
            }
            contents.in_use = Some(name.clone());
            write(&path, &contents)?;
            note(format!("{name} is in use"));
        }
        ContextCommand::Add { name, colour, protected, replace } => {
            let context = described(global, colour, protected)?;
            check_name(&name)?;
            if contents.contexts.contains_key(&name) && !replace {
                return Err(Failure::Usage(format!(
                    "context {name} is there already; --replace replaces it"
                )));
            }
            contents.contexts.insert(name.clone(), context);
            let first = contents.contexts.len() == 1;
            if first {
                contents.in_use = Some(name.clone());
            }
            write(&path, &contents)?;
            note(format!("{name} is in {}{}", path.display(), if first { ", and in use" } else { "" }));
        }
        ContextCommand::Remove { name } => {
            if contents.contexts.remove(&name).is_none() {
                return Err(unknown(&name, &contents));
            }
            contents.in_use.take_if(|used| *used == name);
            write(&path, &contents)?;
            note(format!("{name} is removed"));
        }
    }
    Ok(Exit::Ok)
}

fn list(contents: &Contents, global: &Global, output: &Output) -> Result<Exit, Failure> {
    let used = global.context.as_ref().or(contents.in_use.as_ref());
    if output.is_data() {
        let contexts: Vec<_> = contents
            .contexts
            .iter()
            .map(|(name, context)| json!({"name": name, "inUse": used == Some(name), "context": context}))
            .collect();
        output.value(&json!({"contexts": contexts}))?;
    } else if output.is_name() {
        contents.contexts.keys().try_for_each(|name| output.line(name))?;
    } else if contents.contexts.is_empty() {
        note("no contexts; `tenure context add NAME --server ADDR` adds one");
    } else {
        let mut table = Table::new(["", "CONTEXT", "SERVER", "CERTIFICATE", "PROTECTED", "COLOUR"]);
        for (name, context) in &contents.contexts {
            let certificate = context.tls_cert.as_ref().map(|path| path.display().to_string());
            table.row([
                if used == Some(name) { Field::toned("*", Tone::Good) } else { "".into() },
                name.as_str().into(),
                context.server.as_str().into(),
                certificate.unwrap_or_else(|| "-".to_owned()).into(),
                if context.protected { Field::toned("yes", Tone::Notice) } else { "-".into() },
                context.colour.map_or_else(|| "-".to_owned(), Colour::word).into(),
            ]);
        }
        output.table(&table)?;
    }
    Ok(Exit::Ok)
}

fn described(global: &Global, colour: Option<Colour>, protected: bool) -> Result<Context, Failure> {
    let Some(server) = global.server.clone() else {
        return Err(Failure::Usage("name the address of the server: --server ADDR".to_owned()));
    };
    let absolute = |path: &Option<PathBuf>| {
        let path = path.as_ref().map(std::path::absolute).transpose();
        path.map_err(|source| Failure::Usage(format!("a path cannot be made absolute: {source}")))
    };
    let context = Context {
        server,
        tls_ca: absolute(&global.tls_ca)?,
        tls_cert: absolute(&global.tls_cert)?,
        tls_key: absolute(&global.tls_key)?,
        insecure: global.insecure,
        colour,
        protected,
    };
    match (&context.tls_ca, &context.tls_cert, &context.tls_key) {
        (None, None, None) | (Some(_), Some(_), Some(_)) => Ok(context),
        _ => Err(Failure::Usage(
            "--tls-ca, --tls-cert and --tls-key belong together: name all three".to_owned(),
        )),
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let fine = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if fine {
        return Ok(());
    }
    Err(Failure::Usage("a context has a name of 1 to 63 letters, digits, dots, _ and -".to_owned()))
}

fn unknown(name: &str, contents: &Contents) -> Failure {
    let known = contents.contexts.keys().cloned().collect();
    Failure::Unknown { noun: "context", name: name.to_owned(), known }
}

/// Where the file is: as said, else under XDG_CONFIG_HOME, else under the home directory.
fn file(global: &Global) -> Option<PathBuf> {
    if let Some(path) = &global.context_file {
        return Some(path.clone());
    }
    // The specification has relative paths ignored.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(directory.join("tenure").join("contexts.toml"))
}

/// The file; an absent one is empty.
fn read(path: &Path) -> Result<Contents, Failure> {
    load(path)
        .map_err(|source| Failure::Config { what: "file of contexts".to_owned(), source: source.into() })
}

fn load(path: &Path) -> Result<Contents, Error> {
    let fault = |source| Error::Read { path: path.to_owned(), source };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(fault(error)),
    };
    let mode = std::fs::metadata(path).map_err(fault)?.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(Error::Mode { path: path.to_owned(), mode });
    }
    toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Malformed {
            path: path.to_owned(),
            line,
            key: key(&text, line),
            problem: error.message().to_owned(),
        }
    })
}

/// The key on a line, with the table that it is in.
fn key(text: &str, line: usize) -> String {
    let mut table = "";
    let mut key = "";
    for words in text.lines().take(line).map(str::trim) {
        key = words.split('=').next().unwrap_or_default().trim();
        if let Some(name) = words.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            (table, key) = (name, "");
        }
    }
    [table, key].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

/// Replaces the file whole.
fn write(path: &Path, contents: &Contents) -> Result<(), Failure> {
    let fault = |source| Failure::Write { path: path.to_owned(), source };
    let text = toml::to_string(contents).map_err(|error| fault(std::io::Error::other(error)))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fault)?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let written =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.and_then(|()| std::fs::rename(&fresh, path)).map_err(|source| {
        // The half of a file helps nobody; that it cannot be removed either is no news.
        std::fs::remove_file(&fresh).unwrap_or_default();
        fault(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("contexts.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        load(&path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_and_nobody_else_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/contexts.toml");
        assert_eq!(load(&path).unwrap(), Contents::default());
        let prod = Context {
            server: "https://control.example:7070".to_owned(),
            tls_ca: Some("/x/ca.pem".into()),
            colour: Some(Colour::Red),
            protected: true,
            ..Context::default()
        };
        let contents =
            Contents { in_use: Some("prod.eu".to_owned()), contexts: [("prod.eu".to_owned(), prod)].into() };
        write(&path, &contents).unwrap();
        write(&path, &contents).unwrap();
        assert_eq!(load(&path).unwrap(), contents);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o662)).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn a_mistake_is_told_with_file_line_and_key() {
        let words = refused("use = \"a\"\n\n[contexts.a]\nserver = \"x\"\nservr = 1\n");
        assert!(words.contains("contexts.toml:5: contexts.a.servr: unknown field"), "{words}");
        let words = refused("[contexts.a]\nserver = 7\n");
        assert!(words.contains("contexts.toml:2: contexts.a.server: "), "{words}");
        let words = refused("[contexts.a]\nserver = \"x\"\ncolour = \"pink\"\n");
        assert!(words.contains(":3: contexts.a.colour: unknown variant `pink`"), "{words}");
        assert!(refused("[contexts.a]\n").contains("contexts.toml:1: contexts.a: missing field `server`"));
    }
}
