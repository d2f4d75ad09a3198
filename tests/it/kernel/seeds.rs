//! The first key of a new database: printed once by `entente serve`, or given by a setting or a file and not printed.

use std::process::Stdio;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use entente_harness::{Client, Cluster};

/// Runs `entente serve`; returns its output, the printed key, and the status of a request with `try_key` or else
/// the printed key.
async fn serve(url: &str, dir: &std::path::Path, try_key: Option<&str>) -> (String, Option<String>, u16) {
    serve_with(url, dir, try_key, &[]).await
}

/// As [`serve`], with further settings.
async fn serve_with(
    url: &str,
    dir: &std::path::Path,
    try_key: Option<&str>,
    settings: &[(&str, &str)],
) -> (String, Option<String>, u16) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_entente"))
        .arg("serve")
        .current_dir(dir)
        .env_clear()
        .env("DATABASE_URL", url)
        .env("ENTENTE_BIND", "127.0.0.1:0")
        .envs(settings.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let (mut printed, mut address) = (String::new(), None);
    while address.is_none() {
        let line = tokio::time::timeout(Duration::from_mins(1), lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("the server ended before it listened");
        address = line.strip_prefix("Entente listens on http://").map(|address| address.parse().unwrap());
        printed.push_str(&line);
        printed.push('\n');
    }
    let shown = printed.split("ENTENTE_OPERATOR_KEY=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let shown = shown.map(str::to_owned);
    let client = Client::new(address.unwrap(), try_key.or(shown.as_deref()));
    let me = client.get("/principals/me").await;
    let status = me.status;
    if status == 200 {
        assert_eq!(me.json()["principal_id"], "service.bootstrap");
    }
    let pid = rustix::process::Pid::from_raw(server.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    tokio::time::timeout(Duration::from_secs(30), server.wait()).await.unwrap().unwrap();
    (printed, shown, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_is_printed_once() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().options(&database).to_url_lossy().to_string();
    // An empty directory, so that the developer's `.env` is not read.
    let dir = std::env::temp_dir().join(format!("entente-first-key-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (printed, key, status) = serve(&url, &dir, None).await;
    let key = key.unwrap_or_else(|| panic!("no key was printed: {printed}"));
    assert!(key.starts_with("ent_"));
    assert_eq!(status, 200);
    let (printed, again, status) = serve(&url, &dir, Some(&key)).await;
    assert_eq!(again, None, "{printed}");
    assert!(!printed.contains("ent_"), "{printed}");
    assert_eq!(status, 200, "the key goes on working");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_first_key_is_never_printed() {
    let dir = std::env::temp_dir().join(format!("entente-given-key-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_entente"));
    let made = program().arg("bootstrap-key").env_clear().current_dir(&dir).output().unwrap();
    let given = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let fresh = async || {
        let database = Cluster::get().fresh_database().await;
        Cluster::get().options(&database).to_url_lossy().to_string()
    };

    let url = fresh().await;
    let (printed, _, status) =
        serve_with(&url, &dir, Some(&given), &[("ENTENTE_BOOTSTRAP_KEY", given.as_str())]).await;
    assert!(printed.contains("The operator's key is in ENTENTE_BOOTSTRAP_KEY"), "{printed}");
    assert!(!printed.contains("ent_"), "{printed}");
    assert_eq!(status, 200);

    // A file that exists gives the key, one that is missing is created.
    let file = dir.join("operator.key");
    let settings = [("ENTENTE_BOOTSTRAP_KEY_FILE", file.to_str().unwrap())];
    std::fs::write(&file, format!("{given}\n")).unwrap();
    let (printed, _, status) = serve_with(&fresh().await, &dir, Some(&given), &settings).await;
    assert!(!printed.contains("ent_"), "{printed}");
    assert_eq!(status, 200);
    std::fs::remove_file(&file).unwrap();
    let url = fresh().await;
    let (printed, _, refused) = serve_with(&url, &dir, Some(&given), &settings).await;
    assert!(printed.contains(file.to_str().unwrap()) && !printed.contains("ent_"), "{printed}");
    assert_eq!(refused, 401, "this database has the key of the file");
    let kept = std::fs::read_to_string(&file).unwrap();
    let (printed, _, status) = serve_with(&url, &dir, Some(kept.trim()), &settings).await;
    assert!(!printed.contains("first start"), "{printed}");
    assert_eq!(status, 200);
    std::fs::remove_dir_all(&dir).unwrap();
}
