//! Quotas of principals and teams: `entente principal quota` and `entente team quota`.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::Done;
use super::super::remote::{Api, Remote};

/// The quotas, by their names on the wire.
const QUOTAS: [&str; 3] = ["open_requests", "bytes_per_minute", "storage_bytes"];

/// Limits to set: a number, `none`, or `default` for the server's default. Those that are not named stay.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Requests in progress at once, on each server: a number, `none` or `default`
    #[arg(long, value_name = "N", value_parser = limit)]
    open_requests: Option<Limit>,
    /// Bytes of request bodies in a minute, on each server: a number, `none` or `default`
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    bytes_per_minute: Option<Limit>,
    /// Bytes stored: a number, also as 500M or 2G, `none` or `default`
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    storage: Option<Limit>,
}

/// A limit as on the wire: 0 for none, null for the server's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<u64>);

/// Reads a limit; K, M, G and T stand for powers of 1,000.
fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => return Ok(Limit(Some(0))),
        "default" => return Ok(Limit(None)),
        _ => {}
    }
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        Some((at, 't' | 'T')) => (&text[..at], 1_000_000_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let number = number.filter(|number| *number > 0);
    number.map(|number| Limit(Some(number))).ok_or_else(|| {
        format!("`{text}` must be a number from 1, such as 100 or 2G, or `none`, or `default`")
    })
}

impl Limits {
    /// Sets the limits that were named, if any, and shows all.
    pub(crate) async fn run(self, remote: &Remote, api: &Api, path: &str) -> Done {
        let mut shown = api.get(path, &[]).await?;
        let said = [self.open_requests, self.bytes_per_minute, self.storage];
        if said.iter().any(Option::is_some) {
            let own = |quota: &str| shown[quota]["own"].clone();
            let value = |index: usize| said[index].map_or_else(|| own(QUOTAS[index]), |limit| json!(limit.0));
            let body = json!({ QUOTAS[0]: value(0), QUOTAS[1]: value(1), QUOTAS[2]: value(2) });
            shown = api.act(Method::PUT, &named(path, &shown), &body).await?;
        }
        if remote.json {
            return remote.show(&shown, &[]);
        }
        let line = |quota: &&str| {
            let one = &shown[*quota];
            let limit = if one["limit"].is_null() { json!("none") } else { one["limit"].clone() };
            let from = if one["own"].is_null() { "default" } else { "own" };
            json!({ "scope": shown["scope"], "quota": quota, "limit": limit, "from": from, "used": one["used"] })
        };
        let lines: Vec<Value> = QUOTAS.iter().map(line).collect();
        remote.show(&json!(lines), &["scope", "quota", "limit", "from", "used"])
    }
}

/// The path of the quotas by the name of their owner, which `me` stands for.
fn named(path: &str, shown: &Value) -> String {
    let name = shown["scope"].as_str().and_then(|scope| scope.strip_prefix("principal:"));
    match name.filter(|_| path == "/principals/me/quotas") {
        Some(name) => format!("/principals/{}/quotas", super::super::remote::segment(name)),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_words() {
        for (text, expected) in [
            ("none", Some(0)),
            ("default", None),
            ("7", Some(7)),
            ("2k", Some(2_000)),
            ("500M", Some(500_000_000)),
            ("2G", Some(2_000_000_000)),
            ("1T", Some(1_000_000_000_000)),
        ] {
            assert_eq!(limit(text), Ok(Limit(expected)), "{text}");
        }
        for text in ["", "0", "-1", "G", "1.5G", "1é", "99999999999T", "all"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }
}
