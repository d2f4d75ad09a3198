//! `JUnit`'s XML, as continuous integration reads it: a suite for each tier.

use std::fmt::Write as _;

use super::Counts;
use crate::check::Tier;
use crate::finding::Finding;
use crate::runner::Result;

/// Returns the document.
pub(crate) fn junit(protocol: &str, results: &[Result]) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for tier in [Tier::Must, Tier::Should, Tier::May] {
        let of_tier: Vec<&Result> = results.iter().filter(|result| result.check.tier == tier).collect();
        if of_tier.is_empty() {
            continue;
        }
        let Counts { failed, skipped, .. } = Counts::of(of_tier.iter().copied());
        let (count, suite) = (of_tier.len(), format!("{protocol} {}", tier.word()));
        let time = of_tier.iter().map(|result| result.took.as_secs_f64()).sum::<f64>();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{suite}\" tests=\"{count}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\" time=\"{time:.3}\">"
        );
        for result in of_tier {
            case(&mut out, &suite, result);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(out: &mut String, suite: &str, result: &Result) {
    let check = result.check;
    let name = escaped(&format!("{} {}: {}", check.clause, check.name, check.says));
    let time = result.took.as_secs_f64();
    let _ = write!(out, "    <testcase classname=\"{suite}\" name=\"{name}\" time=\"{time:.3}\"");
    match &result.outcome {
        Ok(()) => out.push_str("/>\n"),
        Err(Finding::Skipped(reason)) => {
            let _ = writeln!(out, "><skipped message=\"{}\"/></testcase>", escaped(reason));
        }
        Err(Finding::Failed { expected, came }) => {
            let message = escaped(&format!("expected {expected}"));
            let text = escaped(&format!("expected: {expected}\ncame: {came}\n{}", result.record.join("\n")));
            let _ = writeln!(out, "><failure message=\"{message}\">{text}</failure></testcase>");
        }
    }
}

/// Escapes a text for XML 1.0, which has no place for most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}
