//! `entente backup` and `entente restore`: what was acknowledged before the backup is in it, servers go on meanwhile, and a
//! restore is whole or nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use entente_store::private::Private;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{complaint, text};
use entente_harness::process::{Launch, Place, key_of};
use entente_harness::vaults::call;
use entente_harness::vaults::grant;
use entente_harness::vaults::{SECRET, credential, vault};
use entente_harness::{
    Client, Cluster, Receiver, Setup, Sse, VAULT_KEY, Value, World, json, send_number, talk,
};

/// Runs the program in its own directory, without the settings of whoever runs the tests.
async fn entente(place: &Place, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_entente"));
    program.args(arguments).env_clear().current_dir(&place.0);
    program.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    program.envs(settings.iter().copied());
    tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap()
}

/// Creates a database without any table, and returns its name.
async fn empty() -> String {
    let name = Cluster::get().fresh_database().await;
    let mut connection = Cluster::get().options(&name).connect().await.unwrap();
    sqlx::raw_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    name
}

async fn numbers(client: &Client, channel: &str) -> Vec<u64> {
    let messages = client.get(&format!("/channels/{channel}/messages?limit=1000")).await.ok();
    let messages = messages.as_array().unwrap();
    messages.iter().filter_map(|message| message["payload"]["n"].as_u64()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_is_restored_into_a_new_place_with_its_keys() {
    let (old, new) = (Place::new("backed-up"), Place::new("restored"));
    let receiver = Receiver::start().await;
    let launch = Launch::private(&old);
    let (mut server, _) = launch.start().await;
    let ada = server.client(&key_of("agent.ada"));
    let (intent, channel) = talk(&ada, json!({})).await;
    let put =
        json!({ "secret": SECRET, "metadata": { "base_url": format!("http://{}/api", receiver.address) } });
    let key = credential(&ada, &vault(&ada).await, put).await;
    grant(&ada, &key, "agent.ada", json!({ "scopes": ["echo"] })).await;
    for n in 0..20 {
        send_number(&ada, &channel, n).await;
    }
    let stream = format!("/subscribe/intents/{intent}");
    let mut live = Sse::open(&ada, &stream).await;

    // The server goes on during the backup.
    let dir = new.0.join("backup").display().to_string();
    let data = old.0.display().to_string();
    let words = ["backup", &dir, "--data-dir", &data];
    let backup = entente(&new, &words, &[]);
    let sends = async {
        for n in 20..60 {
            send_number(&ada, &channel, n).await;
        }
    };
    let (output, ()) = tokio::join!(backup, sends);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(text(&output).contains("keep that file apart from the dump"), "{}", text(&output));
    let last = live.next_few(1).await;
    let files = Path::new(&dir);
    assert_eq!((mode(files), mode(&files.join("keys.env"))), (0o700, 0o600));
    let description: Value =
        serde_json::from_str(&fs::read_to_string(files.join("backup.json")).unwrap()).unwrap();
    assert_eq!(description["missing_keys"], json!([]), "{description}");
    assert_eq!(description["sealing_keys"].as_array().unwrap().len(), 1, "{description}");
    server.kill();
    old.kill_postgres();

    let data = new.0.join("data");
    let restore = ["restore", &dir, "--data-dir", data.to_str().unwrap()];
    let output = entente(&new, &restore, &[]).await;
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(!text(&output).contains("ENTENTE_VAULT_KEY"), "the key is restored: {}", text(&output));
    let mut launch = Launch::private(&new);
    launch.arguments = vec!["--data-dir".to_owned(), data.display().to_string()];
    let (server, _) = launch.start().await;
    let ada = server.client(&key_of("agent.ada"));
    let found = numbers(&ada, &channel).await;
    assert!(found.len() >= 20 && found.iter().copied().eq(0..found.len() as u64), "{found:?}");
    // Secrets open, and streams go on.
    receiver.take();
    call(&ada, "echo", json!({})).await;
    assert_eq!(receiver.take().len(), 1);
    // Its last event may be one that is not in the backup.
    let mut resumed = Sse::resume(&ada, &stream, Some(&last[0].id)).await;
    send_number(&ada, &channel, 1_000).await;
    let more = resumed.next_few(1).await;
    assert!(!more.is_empty());
    drop(server);
    new.kill_postgres();
}

/// Backs up the database of a test's server into this directory.
async fn back_up(world: &World, place: &Place, settings: &[(&str, &str)]) -> String {
    let dir = place.0.join("backup").display().to_string();
    let url = Cluster::get().url(&world.database);
    let settings = [&[("DATABASE_URL", url.as_str())], settings].concat();
    let output = entente(place, &["backup", &dir, "--json"], &settings).await;
    assert!(output.status.success(), "{}", complaint(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["dir"], json!(dir), "{told}");
    dir
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_is_as_it_was_and_only_an_empty_one_is_filled() {
    let (world, place) = (World::start().await, Place::new("backup-db"));
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    for n in 0..5 {
        send_number(&ada, &channel, n).await;
    }
    let dir = back_up(&world, &place, &[]).await;
    send_number(&ada, &channel, 5).await;

    // The database of the server has tables.
    let url = Cluster::get().url(&world.database);
    let output = entente(&place, &["restore", &dir], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("has tables already"),
        "{}",
        complaint(&output)
    );
    assert_eq!(numbers(&ada, &channel).await, [0, 1, 2, 3, 4, 5], "nothing was changed");

    let there = empty().await;
    let url = Cluster::get().url(&there);
    let output = entente(&place, &["restore", &dir], &[("DATABASE_URL", &url)]).await;
    assert!(output.status.success(), "{}", complaint(&output));
    let restored = World::on(Setup::default(), there).await;
    let ada = restored.agent("agent.ada").await;
    assert_eq!(numbers(&ada, &channel).await, [0, 1, 2, 3, 4], "until the backup");
    let verified = restored.admin().await.get("/audit/verify").await.ok();
    assert_eq!(verified["valid"], json!(true), "{verified}");
    // A second time it is not empty.
    let output = entente(&place, &["restore", &dir], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("has tables already"),
        "{}",
        complaint(&output)
    );
    restored.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_newer_backup_and_a_place_in_use_are_refused() {
    let (world, place) = (World::start().await, Place::new("backup-bad"));
    let dir = back_up(&world, &place, &[]).await;
    let url = Cluster::get().url(&world.database);
    let output = entente(&place, &["backup", &dir], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("is there already"),
        "{}",
        complaint(&output)
    );

    let there = empty().await;
    let url = Cluster::get().url(&there);
    let dump = Path::new(&dir).join("database.dump");
    let whole = fs::read(&dump).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for damaged in [&flipped, &whole[..middle].to_vec()] {
        fs::write(&dump, damaged).unwrap();
        let output = entente(&place, &["restore", &dir], &[("DATABASE_URL", &url)]).await;
        assert!(
            !output.status.success() && complaint(&output).contains("is damaged"),
            "{}",
            complaint(&output)
        );
    }
    fs::write(&dump, &whole).unwrap();
    let description = Path::new(&dir).join("backup.json");
    let text = fs::read_to_string(&description).unwrap();
    let mut newer: Value = serde_json::from_str(&text).unwrap();
    newer["schema"] = json!(29_990_101_000_000_u64);
    fs::write(&description, newer.to_string()).unwrap();
    let output = entente(&place, &["restore", &dir], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("Restore it with that release"),
        "{}",
        complaint(&output)
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_backup_and_no_database_is_refused_and_nothing_is_made() {
    let (world, place) = (World::start().await, Place::new("backup-none"));
    let dir = back_up(&world, &place, &[]).await;
    let url = Cluster::get().url(&empty().await);
    let nothing = place.0.join("nothing").display().to_string();
    let output = entente(&place, &["restore", &nothing], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("entente backup"),
        "{}",
        complaint(&output)
    );
    let output = entente(&place, &["backup", &nothing], &[("DATABASE_URL", &url)]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("database is empty"),
        "{}",
        complaint(&output)
    );
    let output = entente(&place, &["backup", &nothing, "--data-dir", &nothing], &[]).await;
    assert!(
        !output.status.success() && complaint(&output).contains("there is no database"),
        "{}",
        complaint(&output)
    );
    // Nobody named a database. (A developer who is root may have one at the usual place.)
    if !Private::default_dir().join("postgres").exists() {
        let home = [("HOME", place.0.to_str().unwrap())];
        let commands: [&[&str]; 3] = [&["restore", &dir], &["migrate"], &["prune", "--dry-run"]];
        for words in commands {
            let output = entente(&place, words, &home).await;
            let told = complaint(&output);
            assert!(!output.status.success() && told.contains("no database is named"), "{words:?}: {told}");
        }
    }
    assert!(!Path::new(&nothing).exists(), "it made something");
    let left = fs::read_dir(&place.0).unwrap().count();
    assert_eq!(left, 1, "only the backup is left");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_in_the_backup_is_named() {
    let (world, place) = (World::start().await, Place::new("backup-keys"));
    let ada = world.agent("agent.ada").await;
    credential(&ada, &vault(&ada).await, json!({ "secret": SECRET })).await;
    let url = Cluster::get().url(&world.database);
    let database = ("DATABASE_URL", url.as_str());
    let dirs = ["none", "left-out", "with"].map(|name| place.0.join(name).display().to_string());
    let key = ("ENTENTE_VAULT_KEY", VAULT_KEY);
    let none = entente(&place, &["backup", &dirs[0]], &[database]).await;
    let left_out = entente(&place, &["backup", &dirs[1], "--without-keys"], &[database, key]).await;
    let with = entente(&place, &["backup", &dirs[2]], &[database, key]).await;
    for (output, dir, told) in
        [(&none, &dirs[0], true), (&left_out, &dirs[1], true), (&with, &dirs[2], false)]
    {
        assert!(output.status.success(), "{}", complaint(output));
        assert_eq!(
            text(output).contains("keep it, because without it nobody opens them"),
            told,
            "{}",
            text(output)
        );
        assert_eq!(Path::new(dir).join("keys.env").exists(), !told);
    }
    // Neither a word of the program nor the dump has the key or the secret.
    for secret in [SECRET, VAULT_KEY] {
        assert!(!text(&with).contains(secret) && !complaint(&with).contains(secret));
        let dump = fs::read(Path::new(&dirs[2]).join("database.dump")).unwrap();
        assert!(!dump.windows(secret.len()).any(|part| part == secret.as_bytes()));
    }
    // Whoever restores it is told what to set, unless it is set.
    for (settings, told) in [(&[][..], true), (&[key][..], false)] {
        let url = Cluster::get().url(&empty().await);
        let settings = [&[("DATABASE_URL", url.as_str())], settings].concat();
        let output = entente(&place, &["restore", &dirs[2]], &settings).await;
        assert!(output.status.success(), "{}", complaint(&output));
        assert_eq!(text(&output).contains("set ENTENTE_VAULT_KEY"), told, "{}", text(&output));
    }
    world.end().await;
}
