//! Settings of the connections between servers.

use std::net::SocketAddr;

use super::Reader;

/// Where a server takes commands that others hand over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// URL under which the others reach it; `None` for the address itself.
    pub url: Option<String>,
}

impl Reader<'_> {
    /// Reads `ENTENTE_PEER_LISTEN` and `ENTENTE_PEER_URL`; `None` if this server takes no commands from others.
    pub(super) fn peers(&mut self) -> Option<PeerConfig> {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let listen = self.parsed("ENTENTE_PEER_LISTEN", nowhere, "ADDRESS:PORT", |_| true);
        let is_set = self.text("ENTENTE_PEER_LISTEN").is_some();
        let url = self.text("ENTENTE_PEER_URL");
        match &url {
            Some(url) if !url.strip_prefix("tcp://").is_some_and(|address| address.contains(':')) => {
                self.faults
                    .push(format!("ENTENTE_PEER_URL={url}: must be a URL such as tcp://10.1.0.7:8090"));
            }
            Some(_) if !is_set => {
                self.faults
                    .push("ENTENTE_PEER_URL: needs ENTENTE_PEER_LISTEN, the address to listen on".to_owned());
            }
            None if is_set && listen.ip().is_unspecified() => {
                self.faults.push(format!(
                    "ENTENTE_PEER_LISTEN={listen}: says on which addresses to listen, not where others reach this server; \
                     set ENTENTE_PEER_URL to a URL such as tcp://10.1.0.7:{}",
                    listen.port()
                ));
            }
            _ => {}
        }
        is_set.then_some(PeerConfig { listen, url })
    }
}
