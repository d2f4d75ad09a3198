//! `entente search`: messages, events and jobs by words.

use std::io::Write as _;

use clap::Args;
use serde_json::Value;

use crate::Done;
use crate::remote::Remote;

/// Search messages, events and jobs by words, newest first
#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    remote: Remote,
    /// Words that a result must have; "a phrase", `or`, and -word for one that it must not have
    #[arg(required = true, allow_hyphen_values = true)]
    words: Vec<String>,
    /// Kinds of results, separated by commas: `message`, `event`, `job` [default: all]
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Only results of this intent
    #[arg(long, value_name = "ID")]
    intent: Option<String>,
    /// Only results after this time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only results before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Maximum number of results
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// Results of one request at most.
const PAGE: usize = 100;

/// Returns a word of the command line as a part of a search: one with spaces was quoted in the shell, and is a phrase.
fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) && !word.contains('"') {
        format!("\"{word}\"")
    } else {
        word.to_owned()
    }
}

impl Search {
    pub(crate) async fn run(self) -> Done {
        let api = self.remote.api()?;
        // One argument is a search as it is; several are words and phrases.
        let words = match self.words.as_slice() {
            [one] => one.clone(),
            several => several.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        };
        let options =
            [("kinds", self.kinds), ("intent_id", self.intent), ("since", self.since), ("until", self.until)];
        let mut query = vec![("q", words)];
        query.extend(options.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let (mut results, mut cursor, mut indexed) = (Vec::new(), None, Value::Null);
        while results.len() < self.limit {
            let limit = ("limit", (self.limit - results.len()).min(PAGE).to_string());
            let place = cursor.take().map(|cursor| ("cursor", cursor));
            let page: Vec<_> = query.iter().cloned().chain([limit]).chain(place).collect();
            let mut answer = api.get("/search", &page).await?;
            if let Value::Array(more) = answer["results"].take() {
                results.extend(more);
            }
            if indexed.is_null() {
                indexed = answer["indexed"].take();
            }
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        if results.is_empty() && !self.remote.json {
            let until = indexed["log_until"].as_str().unwrap_or("the beginning");
            writeln!(std::io::stderr(), "nothing found; searched is what was written before {until}")?;
        }
        for result in &mut results {
            let id = ["message_id", "event_id", "job_id"].iter().find_map(|name| result.get(*name).cloned());
            result["id"] = id.unwrap_or_default();
        }
        self.remote
            .show(&Value::Array(results), &["at", "kind", "type", "agent", "id", "intent_id", "excerpt"])
    }
}
