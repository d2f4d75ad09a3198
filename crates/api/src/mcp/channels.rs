//! Tools for channels: listing those of an intent, and opening one. The tools for messages are in
//! `messages.rs`.

use entente_domain::identity::keys::Dialect;
use entente_domain::limits::PAGE;
use entente_domain::openintent::channels::{ChannelAsk, ChannelStatus, MemberPolicy};
use entente_http::body::id;
use entente_openintent::channels;
use entente_openintent_api::channels::ChannelBody;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shapes::{free, gives, list, may, must, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, within};

/// Default page size.
const STEP: u32 = 100;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 2] {
    [
        Tool {
            name: "list_channels",
            title: "List an intent's channels",
            about: "Lists the channels on an intent, open ones first.",
            takes: takes(vec![
                must("intent_id", text("The intent, `intent_…`.")),
                may("status", word("Only channels in this status.", &["open", "closed"])),
                may("limit", whole("Maximum number of channels; defaults to 100.", 1, i64::from(PAGE))),
            ]),
            example: json!({ "intent_id": "intent_…", "status": "open" }),
            gives: gives(vec![must("channels", list(channel(), "The channels."))]),
            hints: Hints::reads(),
            names: &[],
            run: |call| Box::pin(list_channels(call)),
        },
        Tool {
            name: "open_channel",
            title: "Open a channel",
            about: "Opens a channel on an intent for messages between agents.",
            takes: takes(vec![
                must("intent_id", text("The intent, `intent_…`.")),
                must("name", text("The channel's name.")),
                may("members", list(text("An agent's id."), "The members to list.")),
                may(
                    "member_policy",
                    word(
                        "`explicit`: listed members only; `intent` (default): every agent with access.",
                        &["intent", "explicit"],
                    ),
                ),
                may("task_id", text("The task that the channel is scoped to.")),
                may("options", free("`audit`, `ttl_seconds`, `max_messages`.")),
            ]),
            example: json!({ "intent_id": "intent_…", "name": "data", "members": ["agent.ada", "agent.bob"] }),
            gives: channel(),
            hints: Hints::adds(),
            names: &[],
            run: |call| Box::pin(open_channel(call)),
        },
    ]
}

fn channel() -> Value {
    gives(vec![
        must("id", text("The channel, `chan_…`.")),
        must("intent_id", text("The channel's intent.")),
        must("name", text("The channel's name.")),
        must("members", list(text("An agent's id."), "The listed members.")),
        must("member_policy", text("`explicit` if only listed members may take part, else `intent`.")),
        must("status", text("`open` or `closed`.")),
        must("message_count", json!({ "type": "integer" })),
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    intent_id: String,
    status: Option<ChannelStatus>,
    limit: Option<u32>,
}

async fn list_channels(call: Call) -> ToolResult {
    let said: ListArgs = call.read()?;
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let filter = channels::ChannelFilter { status: said.status, limit, offset: 0 };
    let found =
        channels::list(&call.ctx().openintent, &call.caller, id("intent", &said.intent_id)?, &filter).await?;
    let strict = call.ctx().settings.strict;
    let bodies: Vec<ChannelBody> =
        found.into_iter().map(|channel| ChannelBody::new(channel, strict, Dialect::Standard)).collect();
    let count = bodies.len();
    Answer::new(format!("{count} channel(s) on {}.", said.intent_id), &json!({ "channels": bodies }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenArgs {
    intent_id: String,
    name: String,
    #[serde(default)]
    members: Vec<String>,
    member_policy: Option<MemberPolicy>,
    task_id: Option<String>,
    options: Option<Map<String, Value>>,
}

async fn open_channel(call: Call) -> ToolResult {
    let said: OpenArgs = call.read()?;
    let ask = ChannelAsk {
        name: said.name,
        members: said.members,
        member_policy: said.member_policy,
        task_id: said.task_id,
        options: said.options,
    };
    let intent_id = id("intent", &said.intent_id)?;
    let channel = channels::create(&call.ctx().openintent, &call.caller, intent_id, ask, None).await?;
    let summary = format!("Opened the channel `{}`: {}.", channel.name, channel.id);
    Answer::new(summary, &ChannelBody::new(channel, call.ctx().settings.strict, Dialect::Standard))
}
