//! Setting of the bus between servers.

use super::Reader;

/// The bus by which servers of one database wake each other.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum BusConfig {
    /// PostgreSQL's NOTIFY.
    #[default]
    Postgres,
    /// NATS at this URL, which may contain a password.
    Nats(String),
}

impl std::fmt::Debug for BusConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Postgres => "Postgres",
            Self::Nats(_) => "Nats",
        })
    }
}

impl Reader<'_> {
    /// Reads `ENTENTE_BUS`. A URL may contain a password, so no message contains it.
    pub(super) fn bus(&mut self) -> BusConfig {
        let name = "ENTENTE_BUS";
        match self.text(name).as_deref() {
            None | Some("postgres") => BusConfig::Postgres,
            Some(url) if url.starts_with("nats://") || url.starts_with("tls://") => {
                if url.parse::<async_nats::ServerAddr>().is_err() {
                    self.faults.push(format!("{name}: is no URL such as nats://user:password@host:4222"));
                }
                BusConfig::Nats(url.to_owned())
            }
            Some(_) => {
                self.faults.push(format!(
                    "{name}: must be `postgres`, or a URL such as nats://user:password@host:4222 or tls://host:4222"
                ));
                BusConfig::Postgres
            }
        }
    }
}
