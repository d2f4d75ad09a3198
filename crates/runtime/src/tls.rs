//! TLS for outgoing connections of the server and its command line: rustls with ring and the web's root
//! certificates.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore};

/// Returns a client configuration that trusts the certificates of the public web.
///
/// # Errors
/// The TLS library and its cryptography provider are incompatible.
pub fn client() -> Result<ClientConfig, Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
