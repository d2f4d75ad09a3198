//! TLS: rustls with ring. Connections to others trust the authorities of the public web, and those that the operator adds;
//! `listener` has the certificate of the server's own listener.

pub mod listener;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, Error, RootCertStore};

/// Certificate authorities that are trusted besides those of the public web.
#[derive(Clone, Default)]
pub struct Authorities(Arc<[CertificateDer<'static>]>);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.0.len())
    }
}

impl Authorities {
    /// Returns the certificates in DER form.
    pub fn ders(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Reads a file of certificates in PEM form.
    ///
    /// # Errors
    /// The file cannot be read, or has something other than certificates of authorities.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|e| format!("cannot be read: {e}"))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|e| format!("is no file of certificates in PEM form: {e}"))?;
        if found.is_empty() {
            return Err("has no certificate in PEM form (-----BEGIN CERTIFICATE-----)".to_owned());
        }
        let mut roots = RootCertStore::empty();
        for (at, one) in found.iter().enumerate() {
            let number = at + 1;
            roots.add(one.clone()).map_err(|e| format!("certificate {number} cannot be trusted: {e}"))?;
        }
        Ok(Self(found.into()))
    }
}

/// Returns a client configuration that trusts the authorities of the public web, and these.
///
/// # Errors
/// The TLS library and its cryptography provider are incompatible.
pub fn client(more: &Authorities) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
    for one in more.0.iter() {
        roots.add(one.clone())?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
