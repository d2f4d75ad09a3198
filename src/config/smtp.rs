//! Settings of the mail server for notifications of people.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::Reader;

/// TLS of the connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// From the beginning (`smtps`, RFC 8314 §3.3).
    Wrapped,
    /// By `STARTTLS` before anything else is said; without it nothing is sent.
    Required,
    /// None.
    None,
}

/// The mail server, and the sender of mails.
#[derive(Clone)]
pub struct SmtpConfig {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS of the connection.
    pub tls: SmtpTls,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Sender: a mail address, with or without a name.
    pub from: String,
}

impl fmt::Debug for SmtpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmtpConfig({}:{}, {:?})", self.host, self.port, self.tls)
    }
}

impl Reader<'_> {
    /// Reads the mail server. Its URL may contain a password, so no message contains it.
    pub(super) fn smtp(&mut self) -> Option<SmtpConfig> {
        let from = self.text("ENTENTE_SMTP_FROM");
        let text = self.text("ENTENTE_SMTP_URL")?;
        let parsed = smtp_url(&text);
        let Some(from) = from else {
            self.faults.push(
                "ENTENTE_SMTP_URL: needs ENTENTE_SMTP_FROM, the sender of mails, such as entente@example.com"
                    .to_owned(),
            );
            return None;
        };
        if from.parse::<lettre::message::Mailbox>().is_err() {
            self.faults.push(format!(
                "ENTENTE_SMTP_FROM={from}: must be a mail address, such as entente@example.com"
            ));
        }
        if self.text("ENTENTE_PUBLIC_URL").is_none() {
            self.faults.push(
                "ENTENTE_SMTP_URL: needs ENTENTE_PUBLIC_URL, with which the links in mails begin".to_owned(),
            );
        }
        match parsed {
            Ok(server) => Some(SmtpConfig { from, ..server }),
            Err(fault) => {
                self.faults.push(format!("ENTENTE_SMTP_URL: {fault}"));
                None
            }
        }
    }
}

fn smtp_url(text: &str) -> Result<SmtpConfig, &'static str> {
    const FORM: &str =
        "must be a URL such as smtps://user:password@mail.example.com, or smtp:// for a server with STARTTLS";
    let url = Url::parse(text).map_err(|_fault| FORM)?;
    let (tls, port) = match url.scheme() {
        "smtps" => (SmtpTls::Wrapped, 465),
        "smtp" => (SmtpTls::Required, 587),
        _ => return Err(FORM),
    };
    let tls = match url.query() {
        None => tls,
        Some("tls=none") if tls == SmtpTls::Required => SmtpTls::None,
        Some(_) => return Err("may have `?tls=none` after smtp://, and no other parameter"),
    };
    let host = url.host().ok_or(FORM)?;
    let (name, is_local) = match host {
        Host::Domain(name) => (
            name.to_owned(),
            name.parse::<IpAddr>().map_or(name == "localhost", |address| address.is_loopback()),
        ),
        Host::Ipv4(address) => (address.to_string(), address.is_loopback()),
        Host::Ipv6(address) => (address.to_string(), address.is_loopback()),
    };
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().map(String::from);
    let credentials = match (url.username(), url.password()) {
        ("", None) => None,
        (user, password) => {
            let password = decoded(password.unwrap_or_default()).map_err(|_fault| FORM)?;
            Some((decoded(user).map_err(|_fault| FORM)?, password))
        }
    };
    if credentials.is_some() && tls == SmtpTls::None && !is_local {
        return Err("sends no password without TLS; leave out `?tls=none`");
    }
    let port = url.port().unwrap_or(port);
    Ok(SmtpConfig { host: name, port, tls, credentials, from: String::new() })
}
