//! What the node file may say, and how it is told what it may not.

use super::*;
use crate::shim::Limits;

const EXAMPLE: &str = r#"
name = "mini-1"
server = "http://127.0.0.1:7070"
data = "state"
allow_root = true

[slots]
browser = 2
shell = 4

[labels]
os = "linux"

[kinds."site.qa"]
command = ["sh", "-c", "true"]
env = { MODE = "quick" }
env_from = ["LANG"]
grace = "3s"
result = "stdout"
limits = { memory = "2GiB", tasks = 100, cpu = 1.5, files = 512, file_size = "1GiB", disk = "4GiB" }

[kinds."site.qa".headroom]
mem = "1200MiB"
procs = 60

[starts]
browser = "1 per 2s"

[pressure]
sample = "1s"
"#;

fn check(text: &str, root: bool) -> Result<Config, String> {
    let file =
        NodeFile::parse(text, Path::new("/etc/tenure/node.toml")).map_err(|error| error.to_string())?;
    file.validate_as(Overrides::default(), root).map_err(|error| error.to_string())
}

#[test]
fn the_example_of_the_documentation_is_accepted() {
    let config = check(EXAMPLE, true).unwrap();
    assert_eq!(config.data, Path::new("/etc/tenure/state"));
    assert_eq!(config.starts["browser"], StartRate { count: 1, per: Duration::from_secs(2) });
    let kind = &config.kinds["site.qa"];
    assert_eq!(kind.grace, Duration::from_secs(3));
    assert_eq!(kind.result, ResultSource::Stdout);
    let limits = Limits {
        memory: Some(2 << 30),
        tasks: Some(100),
        cpu_millis: Some(1_500),
        files: Some(512),
        file_size: Some(1 << 30),
        disk: Some(4 << 30),
    };
    assert_eq!(kind.limits, limits);
    assert_eq!(config.containment, Wanted::Auto);
    assert_eq!(config.credits, DEFAULT_CREDITS);
}

#[test]
fn a_key_that_does_not_exist_is_named_with_its_line() {
    let error = check("name = \"a\"\nslot = 3\n", false).unwrap_err();
    assert!(
        error.starts_with("/etc/tenure/node.toml:2: slot is unknown; did you mean \"slots\"?"),
        "{error}"
    );
    let error = check("name = \"a\"\n[kinds.x]\ncommand = [\"sh\"]\nlimits = { gpu = \"1GiB\" }\n", false);
    let error = error.unwrap_err();
    assert!(error.contains(":4: gpu is unknown; did you mean \"cpu\"?"), "{error}");
    let error = check("[slots]\nbrowser = -1\n", false).unwrap_err();
    assert!(error.contains("node.toml:2: "), "{error}");
}

#[test]
fn every_violation_is_named_at_once() {
    let text = r#"
name = "Mini 1"
server = "http://example.com:7070"
credits = 0

[slots]
"Browser" = 1

[kinds.one]
command = []

[kinds.two]
command = ["sh"]
user = "nobody-of-this-name"
env = { TENURE_JOB_ID = "x", "A=B" = "y" }

[starts]
shell = "1 per 2s"
"#;
    let error = check(text, true).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    let expected = [
        ":2: name \"Mini 1\" is no name",
        ":3: server \"http://example.com:7070\" is not on this machine",
        ":7: slots.Browser \"Browser\" is no name",
        ":18: starts.shell limits a slot",
        ":10: kinds.one.command is empty",
        ":9: kinds.one.user is missing",
        ":14: kinds.two.user there is no user",
        ":15: kinds.two.env.A=B",
        ":15: kinds.two.env.TENURE_JOB_ID",
        ":4: credits must be",
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    for part in expected {
        assert!(lines.iter().any(|line| line.contains(part)), "{part} is not in {error}");
    }
}

#[test]
fn wrong_rules_on_pressure_are_named_with_their_line() {
    let text = "name = \"a\"\nserver = \"http://127.0.0.1:1\"\n[[pressure.rule]]\nid = \"load_high\"\n\
        enabled = false\n[[pressure.rule]]\nid = \"odd\"\neffect = { refuse = \"*\" }\n";
    let error = check(text, false).unwrap_err();
    assert!(error.starts_with("/etc/tenure/node.toml:6: pressure rule \"odd\""), "{error}");
}

#[test]
fn an_agent_that_is_root_wants_to_know_who_runs_a_kind() {
    let text = "name = \"a\"\nserver = \"http://[::1]:7070\"\n[kinds.x]\ncommand = [\"sh\"]\n";
    assert!(check(text, false).is_ok());
    assert!(check(text, true).unwrap_err().contains(":3: kinds.x.user is missing"));
    assert!(check(&format!("allow_root = true\n{text}"), true).is_ok());
    let other = text.replace("command", "user = 4242\ncommand");
    assert!(check(&other, false).unwrap_err().contains(":4: kinds.x.user is another user"));
    let text = text.replace("command", "user = \"root\"\ncommand");
    assert_eq!(check(&text, true).unwrap().kinds["x"].user.as_ref().unwrap().uid, 0);
}

#[test]
fn flags_win_over_the_file_and_stand_in_for_it() {
    let overrides = Overrides {
        name: Some("local".to_owned()),
        server: Some("http://localhost:1".to_owned()),
        data: Some(PathBuf::from("/tmp/x")),
        ..Overrides::default()
    };
    let config = NodeFile::default().validate(overrides).unwrap();
    assert_eq!((config.name.as_str(), config.data.as_path()), ("local", Path::new("/tmp/x")));
    assert!(config.kinds.is_empty());
    let error = NodeFile::default().validate(Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("name is missing"), "{error}");
}

#[test]
fn several_servers_are_a_list_in_the_file_or_stand_between_commas_in_the_flag() {
    let addresses = |config: &Config| config.servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let both = ["http://127.0.0.1:1/", "http://localhost:2/"];
    let file = |servers: &str| check(&format!("name = \"a\"\nservers = {servers}\n"), false);
    assert_eq!(addresses(&file(r#"["http://127.0.0.1:1", "http://localhost:2"]"#).unwrap()), both);
    let flag = Some("http://127.0.0.1:1, http://localhost:2".to_owned());
    let overrides = |flag| Overrides { name: Some("a".to_owned()), server: flag, ..Overrides::default() };
    let by_flag = |flag| NodeFile::default().validate(overrides(flag));
    assert_eq!(addresses(&by_flag(flag).unwrap()), both);
    // As a client takes them.
    let flag = by_flag(Some(" 127.0.0.1:1 ,LOCALHOST:2,[::1]:3, http://127.0.0.9:4/".to_owned())).unwrap();
    let four = ["http://127.0.0.1:1/", "http://LOCALHOST:2/", "http://[::1]:3/", "http://127.0.0.9:4/"];
    assert_eq!(addresses(&flag), four);
    for (bad, told) in [
        ("127.0.0.1", "is no address such as"),
        ("127.0.0.1:1/x", "is no address such as"),
        ("10.0.0.1:1", "is not on this machine"),
        ("", "is no address such as"),
    ] {
        let error = by_flag(Some(bad.to_owned())).unwrap_err().to_string();
        assert!(error.contains(told), "{bad}: {error}");
    }
    for (bad, told) in [
        ("[]", ":2: servers must name 1 to 16 addresses"),
        (r#"["http://127.0.0.1:1", "http://10.0.0.1:2"]"#, ":2: servers \"http://10.0.0.1:2\" is not on this machine"),
        (r#"["http://127.0.0.1:1"]"#.replace(']', "]\nserver = \"http://127.0.0.1:1\"").as_str(), "exclude each other"),
        (r#"["https://127.0.0.1:1", "http://127.0.0.1:2"]"#.replace(']', "]\n[tls]\nca = \"a\"\ncert = \"c\"\nkey = \"k\"").as_str(), ":2: servers must be all https"),
    ] {
        let error = file(bad).unwrap_err();
        assert!(error.contains(told), "{bad}: {error}");
    }
}

#[test]
fn a_kind_whose_program_is_missing_is_not_advertised() {
    let text = "name = \"a\"\nserver = \"http://127.0.0.1:1\"\nallow_root = true\n\
        [kinds.here]\ncommand = [\"sh\"]\n[kinds.gone]\ncommand = [\"no-such-program\"]\n";
    let advertised = check(text, false).unwrap().advertised();
    assert_eq!(advertised.programs.keys().collect::<Vec<_>>(), ["here"]);
    assert!(advertised.programs["here"].is_absolute());
    assert_eq!(advertised.missing.len(), 1);
}

#[test]
fn a_worker_kind_has_nothing_of_a_command_and_is_always_advertised() {
    let config = check("name = \"a\"\nserver = \"http://127.0.0.1:1\"\nallow_root = true\n[kinds.w]\nworker = true\ngrace = \"3s\"\n", false).unwrap();
    let advertised = config.advertised();
    assert_eq!(advertised.kinds().into_iter().collect::<Vec<_>>(), ["w"]);
    assert!(advertised.programs.is_empty() && advertised.missing.is_empty());
    let text = "name = \"a\"\nallow_root = true\n[kinds.w]\nworker = true\ncommand = [\"sh\"]\nenv = { A = \"b\" }\nenv_from = [\"C\"]\n\
                workdir = \"x\"\nresult = \"stdout\"\nlimits = { tasks = 5 }\n";
    let told = check(text, false).unwrap_err().to_string();
    for key in ["command", "env", "env_from", "workdir", "limits", "result"] {
        assert!(told.contains(&format!("kinds.w.{key} is not for a worker kind")), "{key}: {told}");
    }
}
