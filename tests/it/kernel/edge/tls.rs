//! TLS: the own listener and its certificates, with real handshakes, and authorities for outgoing connections.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use entente_runtime::tls::listener::{Certificate, CertificateFiles, Look};
use entente_runtime::tls::{self, Authorities};
use futures_util::{SinkExt as _, StreamExt as _};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use reqwest::tls::TlsInfo;
use tokio_tungstenite::tungstenite::Message;

use entente_harness::process::Place;
use entente_harness::socket::hello;
use entente_harness::{ANY, Setup, Value, World, http, json, subscribe};

/// Names of the server in its certificates.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// An authority, and a directory for its certificate and those of a server.
struct Authority {
    place: Place,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, in PEM form.
struct Issued {
    der: Vec<u8>,
    chain: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "An authority of the tests");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let place = Place::new(name);
        fs::write(place.0.join("ca.crt"), issuer.pem()).unwrap();
        Self { place, issuer }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.0.join(name)
    }

    /// Returns the path of a file as a setting.
    fn setting(&self, name: &str) -> &'static str {
        self.file(name).to_str().unwrap().to_owned().leak()
    }

    fn files(&self) -> CertificateFiles {
        CertificateFiles { chain: self.file("tls.crt"), key: self.file("tls.key") }
    }

    /// Issues a certificate that is valid between these years.
    fn issue(&self, from: i32, until: i32) -> Issued {
        let mut params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        Issued { der: made.der().to_vec(), chain: made.pem(), key: key.serialize_pem() }
    }

    /// Issues a certificate that is valid today.
    fn current(&self) -> Issued {
        self.issue(2020, 2500)
    }

    fn put(&self, issued: &Issued) {
        fs::write(self.file("tls.crt"), &issued.chain).unwrap();
        fs::write(self.file("tls.key"), &issued.key).unwrap();
    }

    fn settings(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("ENTENTE_TLS_CERTIFICATE_FILE", self.setting("tls.crt")),
            ("ENTENTE_TLS_KEY_FILE", self.setting("tls.key")),
        ]
    }

    /// Starts a server with a certificate; returns that certificate.
    async fn serve(&self) -> (World, Issued) {
        let issued = self.current();
        self.put(&issued);
        (World::with(Setup { settings: self.settings(), live: false }).await, issued)
    }

    /// Returns a client that trusts only this authority besides those of the web, and keeps no connection.
    fn client(&self) -> reqwest::Client {
        let trusted = Authorities::read(&self.file("ca.crt")).unwrap();
        trusting(&trusted).pool_max_idle_per_host(0).build().unwrap()
    }

    /// Returns the same client, which keeps its connections.
    fn keeping(&self) -> reqwest::Client {
        trusting(&Authorities::read(&self.file("ca.crt")).unwrap()).build().unwrap()
    }
}

fn trusting(authorities: &Authorities) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls::client(authorities).unwrap());
    builder.tls_info(true).no_proxy().redirect(reqwest::redirect::Policy::none())
}

/// Returns the certificate that a response came with.
fn seen(response: &reqwest::Response) -> Vec<u8> {
    response.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
}

#[tokio::test]
async fn a_server_with_a_certificate_speaks_tls_only() {
    let authority = Authority::new("tls");
    let (world, issued) = authority.serve().await;
    let (address, client) = (world.address, authority.client());
    assert_eq!(world.server.scheme(), "https");

    let answer = client.get(format!("https://{address}/healthz")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), seen(&answer)), (200, issued.der));
    assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    // A rule for `localhost` would be one for everything on a developer's machine.
    let near = client.get(format!("https://localhost:{}/healthz", address.port())).send().await.unwrap();
    assert_eq!((near.status().as_u16(), near.headers().get("strict-transport-security")), (200, None));

    // Neither a client without TLS nor one that does not know the authority gets through, and the server goes on.
    http().get(format!("http://{address}/healthz")).send().await.unwrap_err();
    let stranger = trusting(&Authorities::default()).build().unwrap();
    let stranger = stranger.get(format!("https://{address}/healthz")).send().await.unwrap_err();
    assert!(format!("{stranger:?}").contains("UnknownIssuer"), "{stranger:?}");
    assert!(client.get(format!("https://{address}/healthz")).send().await.is_ok());

    let plain = World::start().await;
    let answer = plain.anon().get("//healthz").await;
    assert_eq!((plain.server.scheme(), answer.headers.get("strict-transport-security")), ("http", None));
    plain.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_login_over_tls_has_a_secure_cookie_and_believes_no_forwarded_address() {
    let authority = Authority::new("tls-login");
    let (world, _) = authority.serve().await;
    let client = authority.client();
    let by = {
        let presented = entente_domain::identity::keys::Presented::mint(&*world.server.ctx.chance);
        entente_kernel::identity::seeds::development(&world.server.ctx, &presented).await
    }
    .unwrap()
    .unwrap();
    let key = by.secret.unwrap().0;
    let base = format!("https://{}", world.address);
    let person = json!({ "id": "human.ada", "kind": "human" });
    let post = |path: &str| client.post(format!("{base}{path}")).header("sec-fetch-site", "same-origin");
    let admin = |path: &str| post(path).header("x-api-key", &key);
    assert_eq!(admin("/api/v1/principals").json(&person).send().await.unwrap().status(), 201);
    let link = admin("/api/v1/people/human.ada/links").json(&json!({})).send().await.unwrap();
    let link: Value = link.json().await.unwrap();
    let opened = post(link["path"].as_str().unwrap()).send().await.unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-entente=") && cookie.ends_with("; Secure"), "{cookie}");

    // Failed logins of one client are throttled although it names another address each time.
    let mut last = 0;
    for at in 0..200 {
        let form = format!("name=human.nobody{at}&password=wrong+horse+battery&next=/");
        let request = post("/login").header("x-forwarded-for", format!("192.0.2.{at}"));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        last = request.send().await.unwrap().status().as_u16();
        if last == 429 {
            break;
        }
    }
    assert_eq!(last, 429);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_tls_gets_its_frames_and_an_end() {
    let authority = Authority::new("tls-stream");
    authority.put(&authority.current());
    let world = World::with(Setup { settings: authority.settings(), live: true }).await;
    let base = format!("https://{}/api/v1", world.address);
    let ask = |request: reqwest::RequestBuilder| request.header("x-api-key", ANY).send();
    let client = authority.client();
    let made = ask(client.post(format!("{base}/intents")).json(&json!({ "title": "talk" }))).await.unwrap();
    let made: Value = made.json().await.unwrap();
    let intent = format!("{base}/intents/{}", made["id"].as_str().unwrap());
    let mut stream = ask(client.get(format!("{intent}/subscribe"))).await.unwrap();
    assert_eq!(stream.status(), 200);
    let event = json!({ "event_type": "comment", "payload": { "note": "over TLS" } });
    assert!(ask(client.post(format!("{intent}/events")).json(&event)).await.unwrap().status().is_success());
    let mut said = String::new();
    while !said.contains("over TLS") {
        said += std::str::from_utf8(&stream.chunk().await.unwrap().expect("the stream ended")).unwrap();
    }
    // The stop tells the stream to reconnect, and then breaks it, as one without TLS (OI-11.4.1).
    let reading = tokio::spawn(async move {
        let mut last = String::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            last += std::str::from_utf8(&chunk).unwrap();
        }
        last
    });
    world.server.stop().await;
    let last = reading.await.unwrap();
    assert!(last.contains(": the server is stopping; reconnect\nretry: "), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_while_requests_go_on() {
    let authority = Arc::new(Authority::new("tls-reload"));
    let (world, first) = authority.serve().await;
    let certificate = world.server.certificate.clone().unwrap();
    let url = format!("https://{}/healthz", world.address);

    // New connections all the while, and one that stays open.
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU32::new(0));
    let traffic: Vec<_> = (0..4)
        .map(|_| {
            let (client, url) = (authority.client(), url.clone());
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let answer = client.get(&url).send().await.unwrap();
                    assert_eq!(answer.status(), 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let keeping = authority.keeping();
    let ask = async |client: &reqwest::Client| seen(&client.get(&url).send().await.unwrap());
    assert_eq!(ask(&keeping).await, first.der);

    assert_eq!(certificate.look().await, Look::Same);
    // The two files are written one after the other, slowly.
    let second = authority.current();
    fs::write(authority.file("tls.crt"), &second.chain).unwrap();
    assert_eq!(certificate.look().await, Look::Changing);
    let Look::Kept(why) = certificate.look().await else { panic!("a certificate without its key was taken") };
    assert!(why.contains("is not that of the first certificate in"), "{why}");
    assert_eq!(certificate.look().await, Look::Same, "one fault is told once");
    assert_eq!(ask(&authority.client()).await, first.der);
    fs::write(authority.file("tls.key"), &second.key).unwrap();
    assert_eq!(certificate.look().await, Look::Changing);
    assert_eq!(certificate.look().await, Look::Replaced);
    assert_eq!(ask(&authority.client()).await, second.der);
    assert_eq!(ask(&keeping).await, first.der, "an open connection goes on");

    // What cannot be used changes nothing: one that is over, files that are gone, an empty one.
    authority.put(&authority.issue(2020, 2021));
    assert_eq!(certificate.look().await, Look::Changing);
    let Look::Kept(why) = certificate.look().await else { panic!("a certificate that is over was taken") };
    assert!(why.ends_with("has been over since 2021-01-01T00:00:00Z"), "{why}");
    fs::remove_file(authority.file("tls.key")).unwrap();
    fs::write(authority.file("tls.crt"), "").unwrap();
    assert_eq!(certificate.look().await, Look::Changing);
    assert!(matches!(certificate.look().await, Look::Kept(_)));
    assert_eq!(ask(&authority.client()).await, second.der);
    // The one in use comes back: nothing is left to complain of.
    authority.put(&second);
    assert_eq!(certificate.look().await, Look::Changing);
    assert_eq!(certificate.look().await, Look::Replaced);

    let before = answered.load(Ordering::Relaxed);
    while answered.load(Ordering::Relaxed) < before + 20 {
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::Relaxed);
    for one in traffic {
        one.await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_refused_with_its_fault() {
    let authority = Authority::new("tls-faults");
    let (good, other) = (authority.current(), authority.current());
    let judged = async |chain: &str, key: &str| {
        fs::write(authority.file("tls.crt"), chain).unwrap();
        fs::write(authority.file("tls.key"), key).unwrap();
        Certificate::read(authority.files()).await.map(|one| one.until())
    };
    let ca = authority.issuer.pem();
    let until = Ok("2500-01-01T00:00:00Z".to_owned());
    assert_eq!(judged(&good.chain, &good.key).await, until);
    assert_eq!(judged(&(good.chain.clone() + &ca), &good.key).await, until);

    let over = authority.issue(2020, 2021);
    let early = authority.issue(2400, 2500);
    let sealed = good.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for (chain, key, fault) in [
        (over.chain.as_str(), over.key.as_str(), "has been over since 2021-01-01T00:00:00Z"),
        (&early.chain, &early.key, "is not valid before 2400-01-01T00:00:00Z"),
        (&good.chain, &other.key, "is not that of the first certificate in"),
        // An authority's certificate comes after the server's.
        (&(ca.clone() + &good.chain), &good.key, "is not that of the first certificate in"),
        (&(good.chain.clone() + &over.chain), &good.key, "certificate 2 of"),
        ("", &good.key, "has no certificate in PEM form"),
        (&good.key, &good.key, "has no certificate in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key, "cannot be read"),
        (&good.chain, "", "has no private key in PEM form"),
        (&good.chain, &good.chain, "has no private key in PEM form"),
        (&good.chain, &sealed, "one with a passphrase cannot be used"),
    ] {
        let said = judged(chain, key).await.unwrap_err();
        assert!(said.contains(fault), "{said}");
        let secret = good.key.lines().nth(1).unwrap();
        assert!(!said.contains(secret), "the key is in the message");
    }
}

/// Runs the program in the authority's directory.
fn entente(authority: &Authority, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_entente"));
    program.args(arguments).env_clear().current_dir(&authority.place.0);
    program.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    program.envs(settings.iter().copied()).output().unwrap()
}

#[tokio::test]
async fn a_session_over_tls_runs_a_job() {
    let authority = Authority::new("tls-socket");
    let (world, _) = authority.serve().await;
    let config = tls::client(&Authorities::read(&authority.file("ca.crt")).unwrap()).unwrap();
    let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let url = format!("wss://localhost:{}/arcp", world.address.port());
    let (mut wire, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let mut say = async |kind: &str, payload: Value| {
        let id = format!("m-{kind}");
        let frame = json!({ "arcp": "1.1", "id": id, "type": kind, "payload": payload });
        wire.send(Message::text(frame.to_string())).await.unwrap();
        loop {
            if let Message::Text(text) = wire.next().await.unwrap().unwrap() {
                return serde_json::from_str::<Value>(&text).unwrap();
            }
        }
    };
    let welcome = say("session.hello", hello(ANY, &["heartbeat"])).await;
    assert_eq!(welcome["type"], "session.welcome", "{welcome}");
    let answer =
        say("session.ping", json!({ "nonce": "over TLS", "sent_at": "2026-11-27T20:00:00.000Z" })).await;
    assert_eq!(
        (&answer["type"], &answer["payload"]["ping_nonce"]),
        (&json!("session.pong"), &json!("over TLS")),
        "{answer}"
    );
    // One without TLS is no session.
    let plain = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let refused = tokio_tungstenite::client_async(format!("ws://{}/arcp", world.address), plain).await;
    assert!(refused.is_err(), "a listener with TLS speaks without it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_asks_the_server_of_its_settings() {
    let authority = Authority::new("tls-ready");
    let (encrypted, _) = authority.serve().await;
    let plain = World::start().await;
    let ready = |world: &World, tls: bool| {
        // As in a container: the server listens everywhere, and the check comes from the same machine.
        let bind = format!("0.0.0.0:{}", world.address.port());
        let mut settings = vec![("ENTENTE_BIND", bind.as_str())];
        settings.extend(tls.then(|| authority.settings()).into_iter().flatten());
        let ended = tokio::task::block_in_place(|| entente(&authority, &["ready"], &settings));
        (ended.status.success(), String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap())
    };
    assert_eq!(ready(&encrypted, true), (true, String::new()));
    assert_eq!(ready(&plain, false), (true, String::new()));
    for (world, tls) in [(&encrypted, false), (&plain, true)] {
        let (is_ready, said) = ready(world, tls);
        assert!(!is_ready && said.contains("the server does not answer at http"), "{said}");
    }
    plain.server.api.draining.cancel();
    let (is_ready, said) = ready(&plain, false);
    assert!(!is_ready && said.contains("the server is not ready: ") && said.contains("draining"), "{said}");
    plain.end().await;
    let (is_ready, said) = ready(&encrypted, true);
    assert!(is_ready, "{said}");
    encrypted.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_certificate_is_a_metric_of_servers_that_have_one() {
    let authority = Authority::new("tls-metric");
    authority.put(&authority.current());
    let world = World::with(Setup { settings: authority.settings(), live: true }).await;
    let metrics = async || {
        let answer =
            authority.client().get(format!("https://{}/metrics", world.address)).send().await.unwrap();
        answer.text().await.unwrap()
    };
    // 2500-01-01.
    let began = std::time::Instant::now();
    loop {
        let text = metrics().await;
        let line = text.lines().find(|line| line.starts_with("entente_certificate_end_timestamp_seconds"));
        if line.is_some_and(|line| line.ends_with(" 16725225600")) {
            break;
        }
        assert!(began.elapsed().as_secs() < 10, "{line:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    world.server.stop().await;
    let plain = World::with(Setup { live: true, ..Setup::default() }).await;
    assert!(!plain.server.ctx.metrics.text().contains("certificate_end_timestamp_seconds "));
    plain.server.stop().await;
}

#[test]
fn the_program_does_not_start_with_a_bad_certificate() {
    let authority = Authority::new("tls-start");
    authority.put(&authority.issue(2020, 2021));
    let database = [("DATABASE_URL", "postgres://nobody@127.0.0.1:9/none")];
    let settings = [authority.settings(), database.to_vec()].concat();
    for command in ["serve", "doctor"] {
        let ended = entente(&authority, &[command], &settings);
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!ended.status.success(), "{said}");
        assert!(said.contains("tls.crt has been over since 2021-01-01T00:00:00Z"), "{said}");
        if command == "serve" {
            assert!(said.contains("Check ENTENTE_TLS_CERTIFICATE_FILE and ENTENTE_TLS_KEY_FILE"), "{said}");
        }
    }
    let ended = entente(&authority, &["serve"], &[settings[0], settings[2]]);
    let said = String::from_utf8(ended.stderr).unwrap();
    let told = "ENTENTE_TLS_CERTIFICATE_FILE and ENTENTE_TLS_KEY_FILE: set both, or neither";
    assert!(!ended.status.success() && said.contains(told), "{said}");
    for (content, fault) in
        [("", "has no certificate in PEM form"), ("-----BEGIN CERTIFICATE-----\n", "PEM form")]
    {
        fs::write(authority.file("none.crt"), content).unwrap();
        let ended = entente(&authority, &["serve"], &[settings[2], ("ENTENTE_CA_FILE", "none.crt")]);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.contains("ENTENTE_CA_FILE=none.crt: "), "{said}");
        assert!(said.contains(fault), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_commands_trust_an_authority_of_the_operator() {
    let authority = Authority::new("tls-outgoing");
    let (receiver, _) = authority.serve().await;
    let url = format!("https://{}/healthz", receiver.address);
    let trusting = vec![("ENTENTE_CA_FILE", authority.setting("ca.crt"))];
    for (settings, trusts) in [(Vec::new(), false), (trusting.clone(), true)] {
        let world = World::with(Setup { settings: settings.clone(), live: false }).await;
        let ada = world.agent("agent.ada").await;
        let made = subscribe(&ada, &url, json!({})).await;
        ada.post("/intents", json!({ "title": "something to tell" })).await.ok();
        world.hooks().await;
        let log = ada.get(&format!("/subscriptions/{}/deliveries", made["id"].as_str().unwrap())).await.ok();
        let attempt = &log[0]["attempts"][0];
        // The path of the receiver takes no POST, which only a receiver can say.
        assert_eq!(attempt["status"].is_u64(), trusts, "{attempt}");
        let error = attempt["error"].as_str().unwrap();
        assert_eq!(error.contains("UnknownIssuer"), !trusts, "{error}");
        world.server.stop().await;

        let asked = ["whoami", "--url", &format!("https://{}", receiver.address)].map(str::to_owned);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let key = [("ENTENTE_API_KEY", ANY)];
        let settings = [settings, key.to_vec()].concat();
        let ended = tokio::task::block_in_place(|| entente(&authority, &asked, &settings));
        assert_eq!(ended.status.success(), trusts, "{}", String::from_utf8_lossy(&ended.stderr));
    }
    receiver.end().await;
}
