//! Mail over SMTP, to the server that the operator has set.

use entente_domain::notifications::forms::Message;
use entente_domain::webhooks::retries::{Failed, Failure};
use entente_kernel::notifications::sending::SENDING;
use entente_runtime::tls::Authorities;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};

use super::refused;
use crate::config::smtp::{SmtpConfig, SmtpTls};

/// Longest error of a mail server that is shown to its person, in characters.
const ERROR: usize = 300;

/// Sender of mail.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    /// Right side of message ids.
    host: String,
}

/// `Auto-Submitted: auto-generated` (RFC 3834 §5): nobody's vacation notice answers.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Mailer {
    /// Creates a sender.
    ///
    /// # Errors
    /// TLS cannot be set up, or the sender is no mail address.
    pub fn new(config: &SmtpConfig, authorities: &Authorities) -> Result<Self, String> {
        let from: Mailbox = config.from.parse().map_err(|_fault| "ENTENTE_SMTP_FROM is no mail address")?;
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&config.host)
            .port(config.port)
            .timeout(Some(SENDING));
        let secured = || parameters(&config.host, authorities);
        builder = builder.tls(match config.tls {
            SmtpTls::Wrapped => Tls::Wrapper(secured()?),
            SmtpTls::Required => Tls::Required(secured()?),
            SmtpTls::None => Tls::None,
        });
        if let Some((user, password)) = &config.credentials {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        let host = from.email.domain().to_owned();
        Ok(Self { transport: builder.build(), from, host })
    }

    /// Sends a message; `id` is the left side of its `Message-ID`, the same in every attempt.
    pub(super) async fn send(&self, to: &str, id: &str, message: &Message<'_>) -> Result<(), Failed> {
        let to: Address =
            to.parse().map_err(|_fault| refused("its address is no mail address".to_owned()))?;
        let mail = lettre::Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(message.subject())
            .message_id(Some(format!("<{id}@{}>", self.host)))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(message.text())
            .map_err(|fault| refused(fault.to_string()))?;
        let answer = self.transport.send(mail).await;
        answer.map(|_response| ()).map_err(|fault| {
            let failure = if fault.is_timeout() {
                Failure::TimedOut
            } else if fault.is_permanent() {
                // It refused this message, and may take another.
                Failure::Status(400)
            } else if fault.is_transient() {
                Failure::Status(503)
            } else {
                Failure::Unreachable
            };
            let error = format!("the mail server: {fault}").replace('\0', "\u{fffd}");
            Failed { failure, error: error.chars().take(ERROR).collect(), retry_after: None }
        })
    }
}

fn parameters(host: &str, authorities: &Authorities) -> Result<TlsParameters, String> {
    let mut builder =
        TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::WebpkiRoots);
    for der in authorities.ders() {
        let certificate = Certificate::from_der(der.to_vec()).map_err(|fault| fault.to_string())?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build_rustls().map_err(|fault| fault.to_string())
}
