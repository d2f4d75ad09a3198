//! Imports of bundles: what another server wrote is verified, kept as it is, and exported again (BN-5).

use std::time::Duration;

use entente_bridges::bundles::records;
use entente_domain::bundles::Section;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bundles::Scene;
use entente_harness::{BundleFile, Client, Reply, Setup, Value, World, json};

/// Two servers that know nothing of each other, and a bundle of the first.
struct Two {
    scene: Scene,
    file: BundleFile,
    /// The first server's key.
    key: String,
    there: World,
    admin: Client,
}

impl Two {
    async fn set() -> Self {
        let scene = Scene::set().await;
        let file = scene.bundle(&scene.ada).await;
        let keys = scene.world.anon().get("/server/keys").await.ok();
        // Test servers draw the same key; this one has another.
        let settings = vec![("ENTENTE_SIGNING_KEY", "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=")];
        let there = World::with(Setup { settings, live: false }).await;
        let admin = there.admin().await;
        Self { scene, file, key: keys["keys"][0]["did"].as_str().unwrap().to_owned(), there, admin }
    }

    /// Imports a file into the second server, which trusts the first one's key.
    async fn import(&self, file: &BundleFile) -> Reply {
        self.admin.send("POST", &format!("/bundles?server_key={}", self.key), Some(file.0.clone())).await
    }

    /// Sweeps the second server until nothing is left to do; returns the number of lines and bundles that were deleted.
    async fn sweep(&self) -> u64 {
        let mut all = 0;
        loop {
            match records::forget(self.there.ctx(), 10).await.unwrap() {
                0 => return all,
                some => all += some,
            }
        }
    }

    /// Makes a key of another admin.
    async fn root(&self) -> Value {
        self.there.agent("agent.root").await;
        let scopes = json!({ "label": "root", "scopes": ["admin"] });
        self.admin.post("/principals/agent.root/keys", scopes).await.is(201)
    }

    /// Returns the head of a request that imports the file with a key.
    fn head(&self, key: &Value) -> String {
        format!(
            "POST /api/v1/bundles?server_key={} HTTP/1.1\r\nHost: h\r\nX-API-Key: {}\r\nContent-Length: {}\r\n\r\n",
            self.key,
            key["key"].as_str().unwrap(),
            self.file.0.len()
        )
    }

    async fn rows(&self) -> i64 {
        let count = "SELECT (SELECT count(*) FROM bundles) + (SELECT count(*) FROM bundle_lines)";
        sqlx::query_scalar(count).fetch_one(&self.there.ctx().pool).await.unwrap()
    }

    async fn end(self) {
        self.there.end().await;
        self.scene.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_bundle_is_exported_again_byte_for_byte() {
    let two = Two::set().await;
    let made = two.import(&two.file).await.is(201);
    let header = two.file.header();
    assert_eq!((&made["intent_id"], &made["title"]), (&json!(two.scene.intent), &header["intent"]["title"]));
    assert_eq!((&made["exported_by"], &made["signed_by"]), (&json!("agent.ada"), &json!(two.key)));
    let size = (two.file.0.len(), two.file.0.lines().count());
    assert_eq!((&made["bytes"], &made["lines"]), (&json!(size.0), &json!(size.1)));
    // By its own address, and as what it is of.
    let path = format!("/bundles/{}", made["id"].as_str().unwrap());
    assert!(two.admin.get(&format!("{path}/file")).await.text == two.file.0);
    let again = BundleFile::of(&two.admin, &format!("/intents/{}", two.scene.intent)).await;
    assert!(again.0 == two.file.0);
    assert!(again.report_of(&two.scene.world).await.is_clean(), "the first server's seal holds");
    assert_eq!(two.admin.get(&path).await.ok(), made);
    assert_eq!(two.admin.get("/bundles").await.ok()["bundles"], json!([made]));
    // The same file is imported once, a later one beside it; the intent's is the later.
    assert_eq!(two.import(&two.file).await.is(200), made);
    two.scene.world.pass(1).await;
    two.there.pass(1).await;
    two.scene
        .ada
        .post(
            &format!("/intents/{}/events", two.scene.intent),
            json!({ "event_type": "comment", "payload": {} }),
        )
        .await
        .ok();
    let later = two.scene.bundle(&two.scene.admin).await;
    let second = two.import(&later).await.is(201);
    let latest = BundleFile::of(&two.admin, &format!("/intents/{}", two.scene.intent)).await;
    assert!(latest.0 == later.0);
    let of_intent = format!("/bundles?intent_id={}", two.scene.intent);
    assert_eq!(two.admin.get(&of_intent).await.ok()["bundles"], json!([second, made]));
    let next = format!("{of_intent}&limit=1&before={}", second["id"].as_str().unwrap());
    assert_eq!(two.admin.get(&next).await.ok()["bundles"], json!([made]));
    // It goes from server to server: a third one needs the first one's key only.
    let third = World::start().await;
    let address = format!("/bundles?server_key={}", two.key);
    third.admin().await.send("POST", &address, Some(again.0)).await.is(201);
    third.end().await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_an_imported_bundle_are_read_by_their_kind() {
    let two = Two::set().await;
    let made = two.import(&two.file).await.is(201);
    let path = format!("/bundles/{}/lines", made["id"].as_str().unwrap());
    let messages = two.admin.get(&format!("{path}?kind=message")).await.ok()["lines"].clone();
    let bodies: Vec<Value> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            assert_eq!(line["kind"], "message");
            serde_json::from_str::<Value>(line["line"].as_str().unwrap()).unwrap()["body"].clone()
        })
        .collect();
    assert_eq!(bodies, two.file.bodies(Section::Message));
    let seal = two.admin.get(&format!("{path}?kind=seal")).await.ok()["lines"].clone();
    assert_eq!(seal[0]["line"].as_str(), two.file.0.lines().last());
    // Page by page they are the file.
    let (mut text, mut after) = (String::new(), 0);
    loop {
        let page = two.admin.get(&format!("{path}?limit=7&after={after}")).await.ok()["lines"].clone();
        let lines = page.as_array().unwrap();
        let Some(last) = lines.last() else { break };
        after = last["number"].as_i64().unwrap();
        for line in lines {
            text.push_str(line["line"].as_str().unwrap());
            text.push('\n');
        }
    }
    assert!(text == two.file.0);
    two.admin.get(&format!("{path}?kind=letter")).await.refused(422, "invalid_parameter");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_an_unknown_server_is_refused_until_its_key_is_named() {
    let two = Two::set().await;
    let refused = two.admin.send("POST", "/bundles", Some(two.file.0.clone())).await;
    let problem = refused.refused(403, "bad_signature");
    assert!(problem["detail"].as_str().unwrap().contains(&two.key), "{problem}");
    two.admin
        .send("POST", "/bundles?server_key=did:key:z6Mk", Some(two.file.0.clone()))
        .await
        .refused(422, "invalid_parameter");
    // A forger's seal, also with the forger's own key inside the checkpoints and receipts.
    two.import(&two.file.forged(|_| ())).await.refused(403, "bad_signature");
    assert_eq!(two.sweep().await, two.file.0.lines().count() as u64 * 2 + 2);
    // The server that wrote it takes it back without a word.
    let own = two.scene.admin.send("POST", "/bundles", Some(two.file.0.clone())).await.is(201);
    assert_eq!(own["signed_by"], json!(two.key));
    two.import(&two.file).await.is(201);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_whole_bundle_is_refused_and_leaves_nothing() {
    let two = Two::set().await;
    let lines: Vec<&str> = two.file.0.split_inclusive('\n').collect();
    let end = lines.len();
    let changed = two.file.0.replacen("“1”", "“9”", 1);
    assert_ne!(changed, two.file.0);
    let cases = [
        String::new(),
        "\n".to_owned(),
        "{}\n".to_owned(),
        lines[..end - 1].concat(),
        lines[1..].concat(),
        [&lines[..2], &lines[3..]].concat().concat(),
        two.file.0.trim_end().to_owned(),
        format!("{}{}", two.file.0, lines[end - 1]),
        format!("{}x", two.file.0),
        changed,
    ];
    for (at, text) in cases.into_iter().enumerate() {
        let refused = two.import(&BundleFile(text)).await;
        assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid_request")), "case {at}");
    }
    assert_eq!(two.admin.get("/bundles").await.ok()["bundles"], json!([]));
    two.sweep().await;
    assert_eq!(two.rows().await, 0);
    two.import(&two.file).await.is(201);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_never_ends_leaves_nothing_and_keeps_nobody_back() {
    let two = Two::set().await;
    let half = two.file.0.len() / 2;
    let made = two.root().await;
    let head = two.head(&made);
    let mut cut = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(two.there.address).await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&two.file.0.as_bytes()[..half]).await.unwrap();
        cut.push(socket);
    }
    while two.rows().await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Its principal has as many as it may; another admin goes on.
    let third = two.there.client(made["key"].as_str().unwrap());
    let address = format!("/bundles?server_key={}", two.key);
    third.send("POST", &address, Some(two.file.0.clone())).await.refused(429, "rate_limited");
    two.import(&two.file).await.is(201);
    drop(cut.pop());
    // The second sender ends in time.
    let mut socket = cut.pop().unwrap();
    socket.write_all(&two.file.0.as_bytes()[half..]).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200", "the same file was imported meanwhile");
    // What the one that left had sent is kept until it cannot arrive any more.
    two.there.pass(1_300).await;
    two.sweep().await;
    assert_eq!(two.rows().await, i64::try_from(1 + two.file.0.lines().count()).unwrap());
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_import_read_and_remove_bundles() {
    let two = Two::set().await;
    let made = two.import(&two.file).await.is(201);
    let path = format!("/bundles/{}", made["id"].as_str().unwrap());
    // Neither an agent of the same name as the one that wrote it, nor another.
    let ada = two.there.agent("agent.ada").await;
    ada.send("POST", "/bundles", Some(two.file.0.clone())).await.refused(403, "scope_missing");
    for read in ["/bundles".to_owned(), path.clone(), format!("{path}/file"), format!("{path}/lines")] {
        ada.get(&read).await.refused(403, "scope_missing");
    }
    ada.delete(&path).await.refused(403, "scope_missing");
    ada.get(&format!("/intents/{}/export", two.scene.intent)).await.refused(404, "not_found");
    ada.get(&format!("/intents/{}", two.scene.intent)).await.refused(404, "not_found");
    two.admin.delete(&path).await.is(204);
    for gone in [
        path.clone(),
        format!("{path}/file"),
        format!("{path}/lines"),
        format!("/intents/{}/export", two.scene.intent),
    ] {
        two.admin.get(&gone).await.refused(404, "not_found");
    }
    two.admin.delete(&path).await.refused(404, "not_found");
    // It can be imported again before the first one is swept.
    let again = two.import(&two.file).await.is(201);
    two.sweep().await;
    let file = two.admin.get(&format!("/bundles/{}/file", again["id"].as_str().unwrap())).await;
    assert!(file.text == two.file.0);
    let log = two.admin.get("/audit?limit=1000").await;
    for kind in ["bundle.imported", "bundle.removed"] {
        assert!(log.text.contains(kind), "{kind}: {}", log.text);
    }
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_meanwhile_imports_nothing() {
    let two = Two::set().await;
    let half = two.file.0.len() / 2;
    let made = two.root().await;
    let mut socket = TcpStream::connect(two.there.address).await.unwrap();
    socket.write_all(two.head(&made).as_bytes()).await.unwrap();
    socket.write_all(&two.file.0.as_bytes()[..half]).await.unwrap();
    while two.rows().await < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    two.admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await.ok();
    socket.write_all(&two.file.0.as_bytes()[half..]).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 401");
    two.sweep().await;
    assert_eq!(two.rows().await, 0);
    two.end().await;
}
