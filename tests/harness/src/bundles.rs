//! Bundles of intents: fetched, taken apart, forged, and verified.

use entente_domain::bundles::{self, Header, Line, Report, Section, Writer};
use entente_domain::identity::signatures::{PublicKey, Signer};
use serde_json::{Map, Value, json};

use super::{Client, World};

/// A bundle in memory.
#[derive(Clone)]
pub struct BundleFile(pub String);

impl BundleFile {
    /// Fetches the bundle of the intent with this path.
    pub async fn of(client: &Client, path: &str) -> Self {
        let reply = client.get(&format!("{path}/export")).await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, "application/x-ndjson"),
            "{}",
            reply.text
        );
        Self(reply.text)
    }

    /// Returns all lines but the seal.
    pub fn lines(&self) -> Vec<Line> {
        self.0.lines().filter_map(|line| Line::parse(line.as_bytes())).collect()
    }

    /// Returns the contents of the lines of a kind.
    pub fn bodies(&self, section: Section) -> Vec<Value> {
        let lines = self.lines().into_iter().filter(|line| line.section == section);
        lines.map(|line| Value::Object(line.body)).collect()
    }

    /// Returns the content of the first line.
    pub fn header(&self) -> Value {
        self.bodies(Section::Bundle).remove(0)
    }

    /// Returns the kinds of the lines, each once, in their order.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.lines().iter().map(|line| line.section.as_str()).collect();
        kinds.dedup();
        kinds
    }

    /// Returns a verifier's report that trusts the key in the file.
    pub fn report(&self) -> Report {
        bundles::verify(self.0.as_bytes(), &[]).unwrap_or_else(|e| panic!("{e}: {}", self.0))
    }

    /// Returns a verifier's report that trusts the server's key only.
    pub async fn report_of(&self, world: &World) -> Report {
        let key = world.anon().get("/server/keys").await.ok()["keys"][0]["did"].as_str().unwrap().to_owned();
        bundles::verify(self.0.as_bytes(), &[PublicKey::of_did(&key).unwrap()]).unwrap()
    }

    /// Returns the file that a forger makes of it, who has changed lines and seals all of them anew with a key of their own.
    pub fn forged(&self, change: impl FnOnce(&mut Vec<(Section, Map<String, Value>)>)) -> Self {
        let mut lines: Vec<_> = self.lines().into_iter().map(|line| (line.section, line.body)).collect();
        change(&mut lines);
        let header: Header = serde_json::from_value(Value::Object(lines.remove(0).1)).unwrap();
        let (mut writer, mut text) = Writer::begin(&header).unwrap();
        for (section, body) in lines {
            text.push_str(&writer.line(section, &body).unwrap());
        }
        text.push_str(&writer.seal(&Signer::from_seed(&[99; 32])).unwrap());
        Self(text)
    }

    /// Returns its log as the first format of exports, which has the chain and nothing else.
    pub fn log(&self) -> Value {
        let header = self.header();
        json!({
            "format": "entente-export/1", "exported_at": header["exported_at"], "intent": header["intent"],
            "event_count": header["event_count"], "head": header["head"], "events": self.bodies(Section::Event),
        })
    }
}
