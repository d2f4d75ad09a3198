//! Compressed answers: which ones, for whom, and never where their length would tell a secret.

use std::io::Read as _;

use flate2::read::GzDecoder;

use entente_harness::people::logged_in;
use entente_harness::{Client, Value, World, http, json, talk};

/// An answer as it came over the wire.
struct Raw {
    status: u16,
    headers: reqwest::header::HeaderMap,
    bytes: Vec<u8>,
}

impl Raw {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn is_gzip(&self) -> bool {
        self.header("content-encoding") == "gzip"
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.is_gzip() {
            GzDecoder::new(self.bytes.as_slice()).read_to_string(&mut text).unwrap();
        } else {
            text.push_str(std::str::from_utf8(&self.bytes).unwrap());
        }
        text
    }
}

/// Sends a request that accepts these encodings; an empty text sends no such header.
async fn ask(client: &Client, method: &str, path: &str, encodings: &str) -> Raw {
    let base = client.base.trim_end_matches("/api/v1");
    let url = path
        .strip_prefix('/')
        .filter(|path| path.starts_with('/'))
        .map_or_else(|| format!("{}{path}", client.base), |path| format!("{base}{path}"));
    let mut request = http().request(method.parse().unwrap(), url);
    for (name, value) in client.headers() {
        request = request.header(name, value);
    }
    if !encodings.is_empty() {
        request = request.header("accept-encoding", encodings);
    }
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Raw { status, headers, bytes: answer.bytes().await.unwrap().to_vec() }
}

/// Creates an intent with a large state.
async fn large(client: &Client, kilobytes: usize) -> Value {
    let state = json!({ "notes": vec!["the same words, again and again".to_owned(); kilobytes * 32] });
    client.post("/intents", json!({ "title": "large", "state": state })).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_compressed_for_those_who_accept_it() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    // One is compressed on the connection's own thread, one on another.
    for kilobytes in [2, 100] {
        let intent = large(&ada, kilobytes).await;
        let path = format!("/intents/{}", intent["id"].as_str().unwrap());
        let plain = ask(&ada, "GET", &path, "").await;
        assert!(plain.bytes.len() > kilobytes * 1_024 && !plain.is_gzip());
        for encodings in ["gzip", "br, gzip;q=0.5", "*", "identity;q=0.1, gzip"] {
            let small = ask(&ada, "GET", &path, encodings).await;
            assert!(small.is_gzip() && small.bytes.len() * 4 < plain.bytes.len(), "{encodings}");
            assert_eq!(small.text(), plain.text());
            assert_eq!(small.header("content-length"), small.bytes.len().to_string());
            assert_eq!(small.header("vary"), "Accept-Encoding");
            assert_eq!(small.header("cache-control"), "no-store");
            // The version guards writes (`If-Match`), whatever the bytes.
            assert_eq!(small.header("etag"), "\"1\"");
        }
        for encodings in ["", "br", "identity", "gzip;q=0", "gzip;q=0, *", "gzip;q=0.2, identity"] {
            let answer = ask(&ada, "GET", &path, encodings).await;
            assert!(!answer.is_gzip(), "{encodings}");
            assert_eq!(answer.text(), plain.text());
            assert_eq!(answer.header("vary"), "Accept-Encoding", "a cache must not give it to others");
        }
        let (shown, told) = (ask(&ada, "GET", &path, "gzip").await, ask(&ada, "HEAD", &path, "gzip").await);
        assert!(told.is_gzip() && told.bytes.is_empty());
        assert_eq!(told.header("content-length"), shown.header("content-length"));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_answers_streams_and_refusals_stay_as_they_are() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, _) = talk(&ada, json!({})).await;
    for path in ["//healthz", "/principals/me", "//nowhere"] {
        let answer = ask(&ada, "GET", path, "gzip").await;
        assert!(!answer.is_gzip() && answer.header("vary").is_empty(), "{path}");
    }
    let mut stream = http().get(format!("{}/intents/{intent}/subscribe", ada.base));
    for (name, value) in ada.headers() {
        stream = stream.header(name, value);
    }
    let mut stream = stream.header("accept-encoding", "gzip").send().await.unwrap();
    assert!(!stream.headers().contains_key("content-encoding") && !stream.headers().contains_key("vary"));
    let greeting = stream.chunk().await.unwrap().unwrap();
    assert!(std::str::from_utf8(&greeting).is_ok_and(|text| text.ends_with("\n\n")), "{greeting:?}");
    drop(stream);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_a_secret_is_never_compressed() {
    let world = World::start().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.ada", "kind": "agent" })).await.is(201);
    let asking = admin.with("accept-encoding", "gzip");
    let made = asking.post("/principals/agent.ada/keys", json!({ "label": "laptop" })).await;
    assert!(made.is(201)["key"].is_string());
    assert!(!made.headers.contains_key("content-encoding") && !made.headers.contains_key("vary"));
    // A new key is small today; no answer to a POST is compressed, however large.
    let state = json!({ "notes": vec!["the same words, again and again"; 200] });
    let made = asking.post("/intents", json!({ "title": "large", "state": state })).await;
    assert!(made.ok().to_string().len() > 4_096 && !made.headers.contains_key("content-encoding"));
    // A page has the token of its forms.
    let browser = logged_in(&world, "human.ada", false).await;
    let cookie = format!("entente={}", browser.cookie.clone().unwrap());
    let visitor = world.anon().with("cookie", &cookie);
    let page = ask(&visitor, "GET", "//dashboard", "gzip").await;
    assert!(page.status == 200 && page.bytes.len() > 1_024 && page.text().contains("name=\"token\""));
    assert!(!page.is_gzip());
    // The files of all pages have none.
    assert!(ask(&visitor, "GET", "//assets/entente.css", "gzip").await.is_gzip());
    world.end().await;
}
