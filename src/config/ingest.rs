//! Settings of envelopes (AEE).

use std::time::Duration;

use entente_aee::ingest::{IngestSettings, Relay, Signatures};
use entente_domain::aee::envelopes::purposes::{Pattern, TOLERATED};
use entente_domain::aee::envelopes::window::Window;

use super::Reader;

impl Reader<'_> {
    pub(super) fn ingest(&mut self) -> IngestSettings {
        let signatures = match self.text("ENTENTE_AEE_REQUIRE_SIGNATURE").as_deref() {
            None | Some("never") => Signatures::Never,
            Some("boundary") => Signatures::Boundary,
            Some("always") => Signatures::Always,
            Some(other) => {
                self.faults.push(format!(
                    "ENTENTE_AEE_REQUIRE_SIGNATURE={other}: must be `never`, `boundary` or `always`"
                ));
                Signatures::Always
            }
        };
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let window = Window {
            max_age_seconds: seconds(self.seconds("ENTENTE_AEE_MAX_AGE_SECONDS", 86_400, 31_536_000)),
            skew_seconds: seconds(self.seconds("ENTENTE_AEE_SKEW_SECONDS", 300, 86_400)),
        };
        let days =
            self.parsed("ENTENTE_AEE_RETENTION_DAYS", 30_u64, "a number of days from 1 to 36500", |n| {
                (1..=36_500).contains(n)
            });
        let strict_references = match self.text("ENTENTE_AEE_REFERENCES").as_deref() {
            None | Some("refuse") => true,
            Some("warn") => false,
            Some(other) => {
                self.faults.push(format!("ENTENTE_AEE_REFERENCES={other}: must be `refuse` or `warn`"));
                true
            }
        };
        let opaque_signatures = match self.text("ENTENTE_AEE_OPAQUE_SIGNATURES").as_deref() {
            None | Some("refuse") => false,
            Some("pass") => true,
            Some(other) => {
                self.faults
                    .push(format!("ENTENTE_AEE_OPAQUE_SIGNATURES={other}: must be `refuse` or `pass`"));
                false
            }
        };
        IngestSettings {
            entity: self.text("ENTENTE_AEE_ENTITY").unwrap_or_else(|| "service.entente".to_owned()),
            window,
            signatures,
            opaque_signatures,
            max_timeout: self
                .seconds("ENTENTE_AEE_MAX_TIMEOUT_SECONDS", 86_400, 31_536_000)
                .max(Duration::from_secs(1)),
            retention: Duration::from_secs(days * 24 * 3_600),
            relays: self.relays("ENTENTE_AEE_RELAYS"),
            tolerated: self.tolerated("ENTENTE_AEE_TOLERATED_INTENTS"),
            strict_references,
            quotas: self.quotas(),
            approver: self.text("ENTENTE_AEE_APPROVER"),
        }
    }

    fn relays(&mut self, name: &str) -> Vec<Relay> {
        let Some(text) = self.text(name) else { return Vec::new() };
        let read = |pair: &str| {
            let (principal, pattern) = pair.split_once('=')?;
            let entities = Pattern::parse(pattern.trim()).ok()?;
            Some(Relay { principal: principal.trim().to_owned(), entities })
        };
        let relays: Option<Vec<Relay>> = text.split(',').map(read).collect();
        if relays.is_none() {
            self.faults.push(format!("{name}={text}: must be a list such as `service.gateway=agent.**`"));
        }
        relays.unwrap_or_default()
    }

    fn tolerated(&mut self, name: &str) -> Vec<Pattern> {
        let text = self.text(name);
        let listed = text
            .as_deref()
            .map_or_else(|| TOLERATED.to_vec(), |text| text.split(',').map(str::trim).collect());
        let patterns: Result<Vec<Pattern>, _> = listed.into_iter().map(Pattern::parse).collect();
        if patterns.is_err() {
            self.faults.push(format!(
                "{name}={}: must be a list of patterns such as `aee.ext.**`",
                text.unwrap_or_default()
            ));
        }
        patterns.unwrap_or_default()
    }
}
