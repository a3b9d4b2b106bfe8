//! Beyond loopback without TLS: refused with a sentence, or done with a warning.

use tenure_tls::Role;

use crate::home::{Home, SERVER};

#[tokio::test]
async fn beyond_loopback_without_tls_nothing_starts_unless_it_was_asked_for() {
    let home = Home::new();
    let http = "metrics are served without TLS";
    let up = "`tenure up` is for one machine";
    for (args, words) in [
        (["server", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"], "there is no [tls]"),
        (["server", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"], http),
        (["up", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"], up),
        (["up", "--listen", "127.0.0.1:0", "--http", "[::]:0"], up),
    ] {
        let output = home.run(&[&args[..], &["--data", "data"]].concat()).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{args:?} {said}");
        assert!(said.contains(words) && said.contains("--insecure"), "{args:?} {said}");
    }
    assert!(!home.path("data").exists(), "nothing was made");

    let everywhere = SERVER.replace("127.0.0.1:0", "0.0.0.0:0");
    home.write("server.toml", &everywhere);
    let args = ["server", "--config", "server.toml", "--ready-file", "ready", "--insecure"];
    let served = home.serve_by(&mut home.command(&args)).await;
    served.process.says(&["without TLS beyond loopback", "WARN"]).await;
    served.process.says(&["whoever reaches the port may read the figures", "WARN"]).await;
    let here = served.grpc.replace("0.0.0.0", "127.0.0.1");
    let (code, words) = home.call(&here, &home.leaf(Role::Admin, "root"), &["kind", "list"]).await;
    assert_eq!(code, Some(0), "{words}");
    served.process.end().await;

    home.write("node.toml", "name = \"n1\"\nallow_root = true\n");
    let args =
        ["up", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--data", "up", "--node", "node.toml"];
    let args = [&args[..], &["--ready-file", "ready", "--insecure"]].concat();
    let served = home.serve_by(&mut home.command(&args)).await;
    served.process.says(&["without TLS beyond loopback", "WARN"]).await;
    assert_eq!(served.figure("tenure_sessions").await, 1, "its own agent reaches it");
    served.process.end().await;
}

#[tokio::test]
async fn every_mistake_in_a_tls_table_is_named_with_file_line_and_key() {
    let home = Home::new();
    let server = "[server]\nlisten = \"0.0.0.0:7070\"\n";
    let node = "name = \"n1\"\nserver = \"https://control.example:7070\"\nallow_root = true\n";
    for (what, text, words) in [
        (
            "server",
            format!("{server}[tls]\ncert = 1\nkey = \"k\"\nclient_ca = \"c\"\n"),
            "x.toml:4: tls.cert",
        ),
        (
            "server",
            format!("{server}[tls]\ncert = \"c\"\nclient_ca = \"c\"\n"),
            "x.toml:3: tls.key: is required",
        ),
        (
            "server",
            format!("{server}[tls]\ncert = \"c\"\nkey = \"k\"\n"),
            "x.toml:3: tls.client_ca: is required",
        ),
        (
            "server",
            format!("{server}[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"c\"\ntrust_domain = \"A b\"\n"),
            "x.toml:7: tls.trust_domain",
        ),
        (
            "server",
            format!("{server}[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"c\"\nca = \"x\"\n"),
            "x.toml:7: tls.ca",
        ),
        ("node", format!("{node}[tls]\nca = 1\ncert = \"c\"\nkey = \"k\"\n"), "x.toml:5: "),
        ("node", format!("{node}[tls]\nca = \"c\"\ncert = \"c\"\n"), "x.toml:4: missing field `key`"),
        (
            "node",
            format!("{node}[tls]\nca = \"c\"\ncert = \"c\"\nkey = \"k\"\nx = 1\n"),
            "x.toml:8: x is unknown",
        ),
        ("node", node.to_owned(), "x.toml:2: server \"https://control.example:7070\" needs [tls]"),
        ("fleet", "[tls]\nca = \"c\"\n".to_owned(), "x.toml:1: tls"),
    ] {
        home.write("x.toml", &text);
        let output = home.run(&["config", "check", what, "x.toml"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(64) && said.contains(words), "{what} {text}\n{words}\n{said}");
    }
}
