//! JSON-RPC, versions and authentication (A2A §3.6, §5.4, §7 and §9).

use serde_json::{Value, json};

use super::{Agent, NO_EXTENDED_CARD, UNSUPPORTED, VERSION_NOT_SUPPORTED, failure, response, without_key};
use crate::check::checks;
use crate::finding::{Outcome, same, skipped};
use crate::site::Site;

checks! {
    "A2A §9.1", Must, response_has_its_id, "A response has `jsonrpc: 2.0` and the id of its request.";
    "A2A §9.1", Must, numbers_are_ids, "An id may be a number.";
    "A2A §9.5", Must, unknown_method_fails, "An unknown method is the error -32601.";
    "A2A §9.5", Must, broken_json_fails, "A body that is no JSON is the error -32700.";
    "A2A §9.5", Must, non_request_fails, "A body that is no request is the error -32600.";
    "A2A §9.5", Must, wrong_params_fail, "Parameters of a wrong form are the error -32602.";
    "A2A §3.6.2", Must, unknown_version_fails, "A version of A2A that the agent does not speak is the error -32009.";
    "A2A §3.1.11", Must, missing_extended_card_is_told, "Without an extended card the call for it is an error.";
    "A2A §7.4", Must, key_is_needed, "An agent with keys answers 401 to a request without one.";
}

async fn response_has_its_id(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let response = agent.ask("GetTask", &json!({ "id": site.uuid() })).await?;
    same(&response, "/jsonrpc", "2.0")?;
    same(&response, "/id", "conform-1")
}

async fn numbers_are_ids(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let body = json!({ "jsonrpc": "2.0", "id": 4711, "method": "GetTask", "params": { "id": site.uuid() } });
    same(&response(&agent.posting(&body).send().await?)?, "/id", 4711)
}

async fn unknown_method_fails(site: &Site) -> Outcome {
    Agent::find(site).await?.fails("ConformUnknown", &json!({}), &[-32601]).await
}

async fn broken_json_fails(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let broken = "{\"jsonrpc\": \"2.0\", \"id\": 1,".to_owned();
    let request = site.request(reqwest::Method::POST, &agent.url).raw("application/json", broken);
    failure(&response(&request.header("a2a-version", "1.0").send().await?)?, &[-32700])
}

async fn non_request_fails(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let answer = agent.posting(&json!({ "jsonrpc": "2.0", "id": 1 })).send().await?;
    failure(&response(&answer)?, &[-32600])
}

async fn wrong_params_fail(site: &Site) -> Outcome {
    Agent::find(site).await?.fails("SendMessage", &json!({ "message": "just words" }), &[-32602]).await
}

async fn unknown_version_fails(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let params = json!({ "id": site.uuid() });
    let body = json!({ "jsonrpc": "2.0", "id": "conform-1", "method": "GetTask", "params": params });
    let request = site.post(&agent.url, &body).header("a2a-version", "9.9");
    failure(&response(&request.send().await?)?, &[VERSION_NOT_SUPPORTED])
}

async fn missing_extended_card_is_told(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    if agent.can("extendedAgentCard") {
        return Err(skipped("the agent has an extended card"));
    }
    agent.fails("GetExtendedAgentCard", &json!({}), &[UNSUPPORTED, NO_EXTENDED_CARD]).await
}

async fn key_is_needed(site: &Site) -> Outcome {
    let agent = Agent::find(site).await?;
    let schemes = agent.card.get("securitySchemes").and_then(Value::as_object);
    if schemes.is_none_or(serde_json::Map::is_empty) {
        return Err(skipped("the card has no security schemes"));
    }
    without_key(site).await?.is(&[401]).map(drop)
}
