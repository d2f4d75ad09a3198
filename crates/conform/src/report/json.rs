//! Results as one line of JSON, for programs.

use serde_json::{Value, json};

use crate::finding::Finding;
use crate::runner::Result;

/// Returns the results.
pub(crate) fn json(protocol: &str, results: &[Result]) -> Value {
    let checks: Vec<Value> = results.iter().map(one).collect();
    json!({ "protocol": protocol, "checks": checks })
}

fn one(result: &Result) -> Value {
    let check = result.check;
    let mut value = json!({
        "clause": check.clause, "tier": check.tier.word(), "name": check.name, "says": check.says,
    });
    match &result.outcome {
        Ok(()) => value["result"] = json!("passed"),
        Err(Finding::Failed { expected, came }) => {
            value["result"] = json!("failed");
            value["expected"] = json!(expected);
            value["came"] = json!(came);
            value["record"] = json!(result.record);
        }
        Err(Finding::Skipped(reason)) => {
            value["result"] = json!("skipped");
            value["reason"] = json!(reason);
        }
    }
    value
}
