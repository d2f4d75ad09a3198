//! The certificate of the server's own listener, which is replaced while the server runs.
//!
//! New handshakes get the new certificate; connections that are open keep theirs. A new file that cannot be used changes
//! nothing, because a server that still answers is worth more than one with the newest certificate.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use chrono::DateTime;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore, ServerConfig};

use crate::metrics::{Metrics, NoLabels};

/// Time between two looks at the files.
pub const LOOK: Duration = Duration::from_secs(5);

/// Time before its end from which a certificate is reported as ending.
const NOTICE: Duration = Duration::from_hours(7 * 24);

/// Time between two reports.
const REPORT: Duration = Duration::from_hours(24);

/// Where the certificate and its key are, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, followed by those of the authorities between it and the one that clients trust.
    pub chain: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
}

/// Result of a look at the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// They are as before.
    Same,
    /// They have just changed, and perhaps are not complete yet: the next look decides.
    Changing,
    /// New handshakes get the new certificate.
    Replaced,
    /// The new files cannot be used, for this reason; the former certificate stays.
    Kept(String),
}

/// The certificate of a listener, and its files.
pub struct Certificate {
    files: CertificateFiles,
    served: Arc<Served>,
    seen: Mutex<Seen>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Findings of the looks at the files.
struct Seen {
    /// Fingerprint of the contents that were tried last.
    tried: u64,
    /// Fingerprint of the contents at the last look.
    last: u64,
    /// When the end of the certificate was reported last.
    reported: Option<UnixTime>,
}

/// The certificate for new handshakes.
struct Served(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

impl Served {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

/// Contents of the files.
#[derive(Hash)]
struct Contents {
    chain: Result<Vec<u8>, String>,
    key: Result<Vec<u8>, String>,
}

impl Contents {
    async fn read(files: &CertificateFiles) -> Self {
        let read = async |path: &Path| {
            let read = tokio::fs::read(path).await;
            read.map_err(|e| format!("{} cannot be read: {e}", path.display()))
        };
        Self { chain: read(&files.chain).await, key: read(&files.key).await }
    }

    /// Tells these contents from others. Both files come from the operator, so nobody seeks a collision.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// The certificate or its key cannot be used; the message says why, and has nothing of the key.
    pub async fn read(files: CertificateFiles) -> Result<Self, String> {
        let contents = Contents::read(&files).await;
        let print = contents.fingerprint();
        let served = judged(&files, contents, UnixTime::now())?;
        let seen = Mutex::new(Seen { tried: print, last: print, reported: None });
        Ok(Self { files, served: Arc::new(Served(RwLock::new(Arc::new(served)))), seen })
    }

    /// Returns the configuration of a listener that serves this certificate and its successors.
    ///
    /// # Errors
    /// The TLS library and its cryptography provider are incompatible.
    pub fn server(&self) -> Result<ServerConfig, Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.served) as Arc<dyn ResolvesServerCert>);
        Ok(config)
    }

    /// Looks at the files once, and takes new contents when two looks have found the same: a certificate and its key are
    /// seldom replaced in one instant.
    pub async fn look(&self) -> Look {
        let contents = Contents::read(&self.files).await;
        let print = contents.fingerprint();
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let settled = std::mem::replace(&mut seen.last, print) == print;
            if seen.tried == print {
                return Look::Same;
            }
            if !settled {
                return Look::Changing;
            }
            seen.tried = print;
            seen.reported = None;
        }
        match judged(&self.files, contents, UnixTime::now()) {
            Ok(new) => {
                *self.served.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                Look::Replaced
            }
            Err(why) => Look::Kept(why),
        }
    }

    /// Looks at the files for ever, logs new contents, faults and a near end of the certificate, and keeps the metric
    /// of that end.
    pub async fn watch(&self, metrics: &Metrics) {
        loop {
            if let Some(end) = self.end().and_then(|end| i64::try_from(end.as_secs()).ok()) {
                metrics.certificate_end.get_or_create(&NoLabels {}).set(end);
            }
            self.report(UnixTime::now());
            tokio::time::sleep(LOOK).await;
            match self.look().await {
                Look::Same | Look::Changing => {}
                Look::Replaced => tracing::info!(
                    certificate = %self.files.chain.display(),
                    until = self.until(),
                    "new connections get the new certificate"
                ),
                Look::Kept(why) => tracing::error!(
                    error = why,
                    until = self.until(),
                    "the new certificate cannot be used, and the former one stays in use"
                ),
            }
        }
    }

    /// Logs once a day that the certificate ends soon, or has ended.
    fn report(&self, now: UnixTime) {
        let Some(until) = self.end().filter(|until| until.as_secs() < now.as_secs() + NOTICE.as_secs())
        else {
            return;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |last: UnixTime| last.as_secs() + REPORT.as_secs() <= now.as_secs();
        if seen.reported.is_none_or(due) {
            seen.reported = Some(now);
            tracing::warn!(until = written(until), "the certificate of this server ends; replace its files");
        }
    }

    /// Returns when the served certificate ends, in words.
    #[must_use]
    pub fn until(&self) -> String {
        self.end().map_or_else(|| "unknown".to_owned(), written)
    }

    fn end(&self) -> Option<UnixTime> {
        self.served.get().cert.first().and_then(end)
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Judges the contents of the files at a time.
fn judged(files: &CertificateFiles, contents: Contents, now: UnixTime) -> Result<CertifiedKey, String> {
    let (chain_file, key_file) = (files.chain.display(), files.key.display());
    let (chain, key) = (contents.chain?, contents.key?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|e| format!("{chain_file} is no file of certificates in PEM form: {e}"))?;
    if chain.is_empty() {
        return Err(format!("{chain_file} has no certificate in PEM form (-----BEGIN CERTIFICATE-----)"));
    }
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_unread| {
        format!("{key_file} has no private key in PEM form (-----BEGIN PRIVATE KEY-----); one with a passphrase cannot be used")
    })?;
    for (at, one) in chain.iter().enumerate() {
        valid(one, now).map_err(|why| format!("certificate {} of {chain_file} {why}", at + 1))?;
    }
    CertifiedKey::from_der(chain, key, &provider()).map_err(|e| match e {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
            "the key in {key_file} is not that of the first certificate in {chain_file}, which must be the server's own"
        ),
        other => format!("the certificate in {chain_file} and the key in {key_file} cannot be used: {other}"),
    })
}

/// Judges whether a certificate is valid at a time.
fn valid(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    match verified(certificate, now)? {
        Some(CertificateError::ExpiredContext { not_after, .. }) => {
            Err(format!("has been over since {}", written(not_after)))
        }
        Some(CertificateError::NotValidYetContext { not_before, .. }) => {
            Err(format!("is not valid before {}", written(not_before)))
        }
        // That no authority is known here is of no interest: the client knows it.
        _ => Ok(()),
    }
}

/// Returns the end of a certificate: the library names it to whoever asks for a time after it.
fn end(certificate: &CertificateDer<'_>) -> Option<UnixTime> {
    let last = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match verified(certificate, last) {
        Ok(Some(CertificateError::ExpiredContext { not_after, .. })) => Some(not_after),
        _ => None,
    }
}

/// Verifies a certificate at a time without any authority, and returns the library's objection.
fn verified(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<Option<CertificateError>, String> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(|e| format!("cannot be read: {e}"))?;
    let algorithms = provider().signature_verification_algorithms.all;
    let none = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&parsed, &none, &[], now, algorithms) {
        Err(Error::InvalidCertificate(objection)) => Ok(Some(objection)),
        _ => Ok(None),
    }
}

fn written(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let at = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.map_or_else(|| "a time without a name".to_owned(), |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}
