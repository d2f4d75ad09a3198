//! TLS for what the server and its command line ask of others: rustls with ring, and the authorities of the web.

use std::sync::Arc;

use rustls::{ClientConfig, Error, RootCertStore};

/// What a client needs to trust the certificates of the public web.
///
/// # Errors
/// The library and its provider of cryptography do not fit each other.
pub fn client() -> Result<ClientConfig, Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
