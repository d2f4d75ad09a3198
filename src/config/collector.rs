//! Settings of the span collector.

use entente_runtime::spans::Collector;
use entente_runtime::tls::Authorities;

use super::Reader;

impl Reader<'_> {
    pub(super) fn collector(&mut self, authorities: &Authorities) -> Option<Collector> {
        let ratio =
            self.parsed("ENTENTE_OTLP_RATIO", 1.0, "a number from 0 to 1", |r: &f64| (0.0..=1.0).contains(r));
        let headers = self.text("ENTENTE_OTLP_HEADERS").unwrap_or_default();
        let headers: Option<Vec<(String, String)>> = headers
            .split(',')
            .filter(|pair| !pair.trim().is_empty())
            .map(|pair| {
                pair.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            })
            .collect();
        if headers.is_none() {
            // The value may be a secret, so the message does not contain it.
            self.faults
                .push("ENTENTE_OTLP_HEADERS: must be name=value, several with commas between".to_owned());
        }
        let endpoint = self.text("ENTENTE_OTLP_ENDPOINT")?;
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            self.faults.push(format!(
                "ENTENTE_OTLP_ENDPOINT={endpoint}: must be a URL such as http://collector:4318"
            ));
        }
        let (headers, authorities) = (headers.unwrap_or_default(), authorities.clone());
        Some(Collector { endpoint, headers, ratio, authorities })
    }
}
