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
