//! Checks of binding moments (draft-morrison-binding-moment-envelope-00), as they come in results of tools of MCP.
//!
//! The memo names no tool and no arguments. A server says which of its tools emits moments (§7.2), or `--tool` does; a
//! tool that takes the members of a question gets one, with `--arguments` besides.

use serde_json::{Value, json};

use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, members, same, skipped, text};
use crate::mcp::Session;
use crate::site::Site;

checks! {
    "BM §4", Must, moment_stands_at_the_top, "The result has the member `binding_moment` at its top.";
    "BM §4", Must, moment_has_its_members, "The envelope has `synopsis`, `findings`, `recommendations`, `offer` and `question`.";
    "BM §4", Must, moment_has_no_others, "The envelope has exactly the members of the memo.";
    "BM §5.1", Must, synopsis_is_a_text, "The synopsis is a text.";
    "BM §5.2", Must, findings_are_texts, "The findings are a list of texts.";
    "BM §5.2", Should, findings_are_three_to_six, "There are three to six findings.";
    "BM §5.3", Must, recommendations_are_texts, "The recommendations are a list of texts.";
    "BM §5.3", Should, recommendations_are_two_to_four, "There are two to four recommendations.";
    "BM §5.4", Must, offer_is_a_text, "The offer is a text.";
    "BM §5.5", Must, stem_is_a_text, "The question's stem is a text.";
    "BM §5.6", Must, options_have_reasons, "There are two to four options, each with a label and a reasoning.";
    "BM §5.7", Must, one_option_is_recommended, "`recommended_idx` is the index of an option.";
    "BM §5.8", Must, hatches_are_booleans, "`hatches` has both hatches, as booleans.";
    "BM §7.1", Must, result_stands_beside, "The conventional result stands beside the envelope.";
    "BM §7.2", Should, tool_says_so, "The list of tools says which one emits moments.";
    "BM §4", Must, question_without_a_synopsis_is_none, "A question without a synopsis is no binding moment.";
    "BM §5.6", Must, question_with_one_option_is_none, "A question with one option is no binding moment.";
    "BM §5.6", Must, question_with_five_options_is_none, "A question with five options is no binding moment.";
    "BM §5.7", Must, question_without_a_recommendation_is_none, "A question without a recommended option is no binding moment.";
    "BM §5.7", Must, recommendation_beyond_the_options_is_none, "A question that recommends no option of its own is no binding moment.";
    "BM §5.6", Must, option_without_a_reason_is_none, "A question with an option that has no reasoning is no binding moment.";
}

/// Whether a tool's entry says that it emits moments: in its annotations, or where libraries keep unknown members.
fn emits(tool: &Value) -> bool {
    let places =
        ["/annotations/emits_binding_moment", "/_meta/emits_binding_moment", "/emits_binding_moment"];
    places.iter().any(|place| tool.pointer(place) == Some(&json!(true)))
}

/// Returns the entry of the tool that emits moments.
async fn tool(session: &Session<'_>, site: &Site) -> Result<Value, Finding> {
    let tools = session.tools().await?;
    let named = |tool: &&Value| site.options.tool.as_deref().is_none_or(|name| tool["name"] == json!(name));
    let found = tools.iter().filter(named).find(|tool| emits(tool) || site.options.tool.is_some());
    found.cloned().ok_or_else(|| skipped("the server says of no tool that it emits binding moments: --tool"))
}

/// Returns a well-formed question.
fn question(site: &Site) -> Value {
    json!({
        "synopsis": "Ship release 1.4 today.",
        "findings": ["CI is green.", "Two of three reviewers approved.", "No blocker is open."],
        "recommendations": ["Tag v1.4.", "Publish to the registry."],
        "offer": "Ask for detail on any item.",
        "question": {
            "stem": format!("When should release 1.4 ship ({})?", site.fresh("check")),
            "options": [
                { "label": "Ship now", "reasoning": "All checks pass." },
                { "label": "Wait a day", "reasoning": "The third reviewer is back tomorrow." },
            ],
            "recommended_idx": 0,
        },
    })
}

/// Whether a tool takes the members of a question.
fn takes_questions(tool: &Value) -> bool {
    tool.pointer("/inputSchema/properties/synopsis").is_some()
}

/// Calls the tool with a question, and returns the response.
async fn call(site: &Site, session: &Session<'_>, tool: &Value, question: Value) -> Result<Value, Finding> {
    let mut arguments = if takes_questions(tool) { question } else { json!({}) };
    for (name, value) in site.options.arguments.iter().filter_map(Value::as_object).flatten() {
        arguments[name] = value.clone();
    }
    session.ask("tools/call", &json!({ "name": tool["name"], "arguments": arguments })).await
}

/// Returns the result of the tool.
async fn emitted(site: &Site) -> Result<Value, Finding> {
    let session = Session::open(site).await?;
    let tool = tool(&session, site).await?;
    let response = call(site, &session, &tool, question(site)).await?;
    if response["result"]["isError"] == json!(true) || response.get("error").is_some() {
        let why = &response;
        return Err(failed("a result of the tool; --arguments has what it needs besides", why));
    }
    Ok(response["result"].clone())
}

/// Returns the envelope, wherever libraries have kept it: that it stands at the top is another check's.
async fn moment(site: &Site) -> Result<Value, Finding> {
    let result = emitted(site).await?;
    let places = ["/binding_moment", "/structuredContent/binding_moment", "/_meta/binding_moment"];
    let found = places.iter().find_map(|place| result.pointer(place)).cloned();
    found.ok_or_else(|| failed("a `binding_moment`", &result))
}

/// Checks that a member is a list of texts, and returns how many.
fn texts(moment: &Value, name: &str) -> Result<usize, Finding> {
    let found = list(&moment[name])?;
    ensure(found.iter().all(Value::is_string), format!("texts in `{name}`"), &moment[name])?;
    Ok(found.len())
}

async fn moment_stands_at_the_top(site: &Site) -> Outcome {
    let result = emitted(site).await?;
    ensure(result["binding_moment"].is_object(), "`binding_moment` at the top", &result)
}

async fn moment_has_its_members(site: &Site) -> Outcome {
    members(&moment(site).await?, &["synopsis", "findings", "recommendations", "offer", "question"])
}

async fn moment_has_no_others(site: &Site) -> Outcome {
    let moment = moment(site).await?;
    let known = ["synopsis", "findings", "recommendations", "offer", "question", "meta"];
    let mut others = moment.as_object().into_iter().flatten().map(|(name, _)| name);
    let other = others.find(|name| !known.contains(&name.as_str()));
    ensure(other.is_none(), "no other members", format!("{other:?}"))
}

async fn synopsis_is_a_text(site: &Site) -> Outcome {
    text(&moment(site).await?, "/synopsis").map(drop)
}

async fn findings_are_texts(site: &Site) -> Outcome {
    texts(&moment(site).await?, "findings").map(drop)
}

async fn findings_are_three_to_six(site: &Site) -> Outcome {
    let count = texts(&moment(site).await?, "findings")?;
    ensure((3..=6).contains(&count), "three to six findings", count)
}

async fn recommendations_are_texts(site: &Site) -> Outcome {
    texts(&moment(site).await?, "recommendations").map(drop)
}

async fn recommendations_are_two_to_four(site: &Site) -> Outcome {
    let count = texts(&moment(site).await?, "recommendations")?;
    ensure((2..=4).contains(&count), "two to four recommendations", count)
}

async fn offer_is_a_text(site: &Site) -> Outcome {
    text(&moment(site).await?, "/offer").map(drop)
}

async fn stem_is_a_text(site: &Site) -> Outcome {
    text(&moment(site).await?, "/question/stem").map(drop)
}

async fn options_have_reasons(site: &Site) -> Outcome {
    let moment = moment(site).await?;
    let options = list(&moment["question"]["options"])?;
    ensure((2..=4).contains(&options.len()), "two to four options", options.len())?;
    for option in options {
        text(option, "/label")?;
        text(option, "/reasoning")?;
    }
    Ok(())
}

async fn one_option_is_recommended(site: &Site) -> Outcome {
    let moment = moment(site).await?;
    let count = list(&moment["question"]["options"])?.len();
    let index = moment["question"]["recommended_idx"].as_u64().and_then(|index| usize::try_from(index).ok());
    ensure(index.is_some_and(|index| index < count), format!("an index below {count}"), &moment["question"])
}

async fn hatches_are_booleans(site: &Site) -> Outcome {
    let moment = moment(site).await?;
    let hatches = &moment["question"]["hatches"];
    let are_right = hatches["free_text"].is_boolean() && hatches["dialogue"].is_boolean();
    ensure(are_right, "`free_text` and `dialogue` as booleans", &moment["question"])
}

async fn result_stands_beside(site: &Site) -> Outcome {
    let result = emitted(site).await?;
    ensure(!list(&result["content"])?.is_empty(), "content beside the envelope", &result)
}

async fn tool_says_so(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let tool = tool(&session, site).await?;
    ensure(emits(&tool), "the annotation `emits_binding_moment`", &tool)
}

/// Asks a malformed question, of which the tool makes no binding moment (§4).
async fn refused(site: &Site, pointer: &str, value: Option<Value>) -> Outcome {
    let session = Session::open(site).await?;
    let tool = tool(&session, site).await?;
    if !takes_questions(&tool) {
        return Err(skipped("the tool makes its questions itself"));
    }
    let mut malformed = question(site);
    let (parent, member) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(parent) = malformed.pointer_mut(parent).and_then(Value::as_object_mut) {
        match value {
            Some(value) => drop(parent.insert(member.to_owned(), value)),
            None => drop(parent.remove(member)),
        }
    }
    let response = call(site, &session, &tool, malformed).await?;
    let result = &response["result"];
    let places = ["/binding_moment", "/structuredContent/binding_moment"];
    let is_moment = places.iter().any(|place| result.pointer(place).is_some());
    ensure(!is_moment, "no binding moment", &response)?;
    if response.get("error").is_some() { Ok(()) } else { same(result, "/isError", true) }
}

/// Returns so many options.
fn options(count: usize) -> Value {
    (0..count).map(|n| json!({ "label": format!("Option {n}"), "reasoning": "It is one." })).collect()
}

async fn question_without_a_synopsis_is_none(site: &Site) -> Outcome {
    refused(site, "/synopsis", None).await
}

async fn question_with_one_option_is_none(site: &Site) -> Outcome {
    refused(site, "/question/options", Some(options(1))).await
}

async fn question_with_five_options_is_none(site: &Site) -> Outcome {
    refused(site, "/question/options", Some(options(5))).await
}

async fn question_without_a_recommendation_is_none(site: &Site) -> Outcome {
    refused(site, "/question/recommended_idx", None).await
}

async fn recommendation_beyond_the_options_is_none(site: &Site) -> Outcome {
    refused(site, "/question/recommended_idx", Some(json!(2))).await
}

async fn option_without_a_reason_is_none(site: &Site) -> Outcome {
    let bare = json!([{ "label": "Ship now" }, { "label": "Wait", "reasoning": "It is late." }]);
    refused(site, "/question/options", Some(bare)).await
}
