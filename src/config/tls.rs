//! Settings of TLS: the certificate of the own listener, whether a proxy terminates TLS, and authorities for outgoing
//! connections.

use std::path::{Path, PathBuf};

use entente_runtime::tls::Authorities;
use entente_runtime::tls::listener::CertificateFiles;

use super::Reader;

/// Configuration of TLS.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// Files of the listener's certificate; `None` for a listener without TLS.
    pub certificate: Option<CertificateFiles>,
    /// Whether a proxy in front of this server terminates TLS, and is the only way to reach the server.
    pub terminated: bool,
    /// Seconds that browsers come back with TLS only; 0 says nothing to them.
    pub hsts_seconds: u32,
    /// Authorities that outgoing connections trust besides those of the public web.
    pub authorities: Authorities,
}

impl TlsConfig {
    /// Returns whether nobody can read connections of clients from elsewhere.
    #[must_use]
    pub const fn encrypts(&self) -> bool {
        self.terminated || self.certificate.is_some()
    }
}

impl Reader<'_> {
    pub(super) fn tls(&mut self) -> TlsConfig {
        let files = ["ENTENTE_TLS_CERTIFICATE_FILE", "ENTENTE_TLS_KEY_FILE"].map(|name| self.text(name));
        let certificate = match files {
            [Some(chain), Some(key)] => {
                Some(CertificateFiles { chain: PathBuf::from(chain), key: PathBuf::from(key) })
            }
            [None, None] => None,
            _ => {
                let fault = "ENTENTE_TLS_CERTIFICATE_FILE and ENTENTE_TLS_KEY_FILE: set both, or neither";
                self.faults.push(fault.to_owned());
                None
            }
        };
        TlsConfig {
            certificate,
            terminated: self.parsed("ENTENTE_TLS_TERMINATED", false, "`true` or `false`", |_| true),
            hsts_seconds: self.number("ENTENTE_HSTS_SECONDS", 31_536_000, 0..=63_072_000),
            authorities: self.authorities(),
        }
    }

    fn authorities(&mut self) -> Authorities {
        let Some(path) = self.text("ENTENTE_CA_FILE") else { return Authorities::default() };
        Authorities::read(Path::new(&path)).unwrap_or_else(|why| {
            self.faults.push(format!("ENTENTE_CA_FILE={path}: {why}"));
            Authorities::default()
        })
    }
}
