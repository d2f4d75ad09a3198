//! Settings of federation: the peers and their rights, from the file that `ENTENTE_FEDERATION_FILE` names
//! (see docs/federation.md). Without it nothing is federated.

use std::collections::BTreeSet;

use entente_domain::globs::Glob;
use entente_domain::identity::principals::check_name;
use entente_domain::limits::FEDERATION_PEERS;
use entente_domain::openintent::federation::signing::parse_key;
use entente_domain::openintent::federation::{Federation, Part, Peer, Relationship, did_of, is_same_did};
use serde::Deserialize;

use super::Reader;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    peers: Vec<Entry>,
    #[serde(default)]
    export: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    url: String,
    did: Option<String>,
    public_keys: Vec<String>,
    #[serde(default)]
    relationship: Relationship,
    /// Whether the peer may dispatch work to this server.
    #[serde(default)]
    receive_from: bool,
    /// Whether this server may dispatch work to the peer.
    #[serde(default)]
    dispatch_to: bool,
    share: Option<Vec<Part>>,
    #[serde(default)]
    agents: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn federation(&mut self) -> Option<Federation> {
        let path = self.text("ENTENTE_FEDERATION_FILE")?;
        let Some(url) = self.text("ENTENTE_PUBLIC_URL") else {
            self.faults.push(format!(
                "ENTENTE_FEDERATION_FILE={path}: needs ENTENTE_PUBLIC_URL, by which peers know this server"
            ));
            return None;
        };
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string());
        match text.and_then(|text| read(&text, &url)) {
            Ok(federation) => Some(federation),
            Err(why) => {
                self.faults.push(format!("ENTENTE_FEDERATION_FILE={path}: {why}"));
                None
            }
        }
    }
}

/// Parses the file, for a server at `url`.
///
/// # Errors
/// The error in the file.
pub fn read(text: &str, url: &str) -> Result<Federation, String> {
    let file: File = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if file.peers.len() > FEDERATION_PEERS {
        return Err(format!("{} peers; at most {FEDERATION_PEERS} can be configured", file.peers.len()));
    }
    let (url, did) = site(url)?;
    let peers: Vec<Peer> = file.peers.into_iter().map(Entry::check).collect::<Result<_, _>>()?;
    let names: BTreeSet<String> =
        peers.iter().map(|peer| peer.did.to_lowercase().replace("%3a", ":")).collect();
    let urls: BTreeSet<&str> = peers.iter().map(|peer| peer.url.as_str()).collect();
    if names.len() < peers.len() || urls.len() < peers.len() {
        return Err("two peers have one URL or one DID".to_owned());
    }
    if peers.iter().any(|peer| peer.url == url || is_same_did(&peer.did, &did)) {
        return Err("a peer has this server's own URL or DID".to_owned());
    }
    Ok(Federation { url, did, peers, export: globs(&file.export)? })
}

/// Returns a server's URL in normal form, and its DID.
fn site(url: &str) -> Result<(String, String), String> {
    let plain = url.trim_end_matches('/').to_lowercase();
    let lawful = plain.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https") && !rest.is_empty() && !rest.contains(['/', '?', '#', '@'])
    });
    let did = did_of(&plain).filter(|_| lawful);
    did.map(|did| (plain, did)).ok_or_else(|| {
        format!("`{url}` must be the URL of a server without a path, such as https://entente.example.com")
    })
}

fn globs(texts: &[String]) -> Result<Vec<Glob>, String> {
    let read = |text: &String| Glob::parse(text).map_err(|e| format!("the agent pattern `{text}` {e}"));
    texts.iter().map(read).collect()
}

impl Entry {
    fn check(self) -> Result<Peer, String> {
        let (url, own) = site(&self.url)?;
        let of = |why: String| format!("peer {url}: {why}");
        let did = self.did.unwrap_or(own);
        check_name("did", &did).map_err(|refusal| of(refusal.message))?;
        if !did.starts_with("did:") || !did.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(of(format!("`{did}` is no DID such as did:web:entente.example.com")));
        }
        let key = |text: &String| {
            parse_key(text).ok_or_else(|| {
                of(format!("`{text}` is no Ed25519 public key in base64, `ed25519:…` or `did:key:…`"))
            })
        };
        let keys = self.public_keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() || keys.len() > 8 {
            return Err(of(
                "`public_keys` must be 1 to 8 keys; the peer publishes its own at /.well-known/did.json"
                    .to_owned(),
            ));
        }
        let agents = globs(&self.agents).map_err(of)?;
        Ok(Peer {
            did,
            keys,
            relationship: self.relationship,
            delivers: self.receive_from,
            takes: self.dispatch_to,
            share: self.share.unwrap_or_else(|| vec![Part::Description]),
            agents,
            url,
        })
    }
}
