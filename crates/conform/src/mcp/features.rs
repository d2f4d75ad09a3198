//! Tools, resources and prompts (MCP 2025-06-18, "Server Features").

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Session;
use crate::check::checks;
use crate::finding::{Outcome, ensure, list, members, text};
use crate::site::Site;

checks! {
    "MCP Tools", Must, tools_are_listed, "`tools/list` lists tools with a name and a schema of their arguments.";
    "MCP Tools", Must, tool_names_are_unique, "Each tool has a name of its own.";
    "MCP Tools", Must, unknown_tool_fails, "A tool that is not there is an error.";
    "MCP Tools", Must, structured_content_has_its_schema, "A tool with an output schema names an object.";
    "MCP Resources", Must, resources_are_listed, "`resources/list` lists resources with a URI and a name.";
    "MCP Resources", Must, templates_are_listed, "`resources/templates/list` lists templates with a URI template and a name.";
    "MCP Resources", Should, unknown_resource_fails, "A resource that is not there is the error -32002.";
    "MCP Prompts", Must, prompts_are_listed, "`prompts/list` lists prompts with a name.";
    "MCP Prompts", Should, unknown_prompt_fails, "A prompt that is not there is the error -32602.";
    "MCP Pagination", Should, unknown_cursor_fails, "An invalid cursor is the error -32602.";
    "MCP Logging", Must, level_is_set, "`logging/setLevel` takes a level of the protocol.";
}

async fn tools_are_listed(site: &Site) -> Outcome {
    for tool in Session::open(site).await?.tools().await? {
        text(&tool, "/name")?;
        let is_object = tool["inputSchema"]["type"] == json!("object");
        ensure(is_object, "an `inputSchema` of the type `object`", &tool)?;
    }
    Ok(())
}

async fn tool_names_are_unique(site: &Site) -> Outcome {
    let tools = Session::open(site).await?.tools().await?;
    let names: BTreeSet<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    ensure(names.len() == tools.len(), format!("{} names", tools.len()), names.len())
}

async fn unknown_tool_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    session.needs("tools")?;
    let call = json!({ "name": "conform-knows-no-such-tool", "arguments": {} });
    let response = session.ask("tools/call", &call).await?;
    let is_told = response["error"]["code"].is_i64() || response["result"]["isError"] == json!(true);
    ensure(is_told, "an error", &response)
}

async fn structured_content_has_its_schema(site: &Site) -> Outcome {
    for tool in Session::open(site).await?.tools().await? {
        if let Some(schema) = tool.get("outputSchema") {
            ensure(schema["type"] == json!("object"), "an `outputSchema` of the type `object`", schema)?;
        }
    }
    Ok(())
}

/// Checks that each entry of a list has these members.
async fn entries(site: &Site, capability: &str, method: &str, member: &str, names: &[&str]) -> Outcome {
    let session = Session::open(site).await?;
    session.needs(capability)?;
    let found = session.call(method, &json!({})).await?;
    list(&found[member])?.iter().try_for_each(|one| members(one, names))
}

async fn resources_are_listed(site: &Site) -> Outcome {
    entries(site, "resources", "resources/list", "resources", &["uri", "name"]).await
}

async fn templates_are_listed(site: &Site) -> Outcome {
    let names = ["uriTemplate", "name"];
    entries(site, "resources", "resources/templates/list", "resourceTemplates", &names).await
}

async fn unknown_resource_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    session.needs("resources")?;
    // Later revisions have the second code.
    session.fails("resources/read", &json!({ "uri": "conform://no/such/resource" }), &[-32002, -32602]).await
}

async fn prompts_are_listed(site: &Site) -> Outcome {
    entries(site, "prompts", "prompts/list", "prompts", &["name"]).await
}

async fn unknown_prompt_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    session.needs("prompts")?;
    session.fails("prompts/get", &json!({ "name": "conform-knows-no-such-prompt" }), &[-32602]).await
}

async fn unknown_cursor_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    session.needs("tools")?;
    session.fails("tools/list", &json!({ "cursor": "conform-knows-no-such-page" }), &[-32602]).await
}

async fn level_is_set(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    session.needs("logging")?;
    let result: Value = session.call("logging/setLevel", &json!({ "level": "info" })).await?;
    ensure(result.is_object(), "an empty result", result)
}
