//! `entente ready`: asks the server of this configuration whether it is ready. The health check of the image runs it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Client, StatusCode};

use super::Done;
use crate::config::Config;

/// Time limit for the answer.
const LIMIT: Duration = Duration::from_secs(3);

/// Asks the server on this machine, and fails unless it is ready.
pub(super) async fn run() -> Done {
    let config = Config::from_environment()?;
    let (address, tls) = (near(config.bind), config.tls.certificate.is_some());
    let url = format!("{}://{address}/readyz", if tls { "https" } else { "http" });
    // Already there if another client of this process was first.
    let _another = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .no_proxy()
        .timeout(LIMIT)
        // The certificate names the server as its clients know it, not this machine's own address. Nothing is sent that
        // would need a proof of who reads it.
        .tls_danger_accept_invalid_certs(tls)
        .build()?;
    let answer = client.get(&url).send().await;
    let answer = answer.map_err(|e| format!("the server does not answer at {url}: {}", e.without_url()))?;
    if answer.status() == StatusCode::OK {
        return Ok(());
    }
    Err(format!("the server is not ready: {}", answer.text().await?.trim()).into())
}

/// Returns the address under which this machine reaches a listener.
fn near(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        given => given,
    };
    SocketAddr::new(ip, bind.port())
}
