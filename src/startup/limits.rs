//! Derives the API's limits from the configuration.

use entente_http::Limits;

use crate::config::Config;

pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        rate_per_second: config.rate_per_second,
        max_body_bytes: config.max_body_bytes,
        tls_terminated: config.tls.terminated,
        hsts_seconds: config.tls.certificate.as_ref().map(|_served| config.tls.hsts_seconds),
        max_streams_per_key: config.max_streams_per_key,
        max_requests_per_key: config.http.max_requests_per_key,
        body: config.http.body,
        write: config.http.write,
        ping: config.ping,
        refused_subscribe_hold: config.refused_subscribe_hold,
    }
}
