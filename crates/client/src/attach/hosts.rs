//! The hosts' protocols of hooks: the events that they report, and the forms of the answers. Checked with Claude Code
//! 2.1.332 and Codex 0.171.0 (`tests/clients/test_attach.py`).

use std::fmt;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::variable;

/// Times in a row that a host lets a hook keep a turn from ending (Claude Code; it drops the text of the next one). The
/// same for every host, so that others cannot keep an agent's turn going for ever.
const STOPS: u32 = 8;
/// First version of Claude Code that is known to take context from a `Stop` hook. An earlier one gets a reason, which the
/// later ones show to the model twice.
const CONTEXT_AT_STOP: [u32; 3] = [2, 1, 332];

/// An LLM host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Host {
    /// Claude Code (`@anthropic-ai/claude-code`)
    Claude,
    /// Codex (`@openai/codex`)
    Codex,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        })
    }
}

/// Point in a session at which the host runs a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// The session starts, or goes on in a new process or with a shorter context.
    Start,
    /// The user has written.
    Prompt,
    /// A tool has answered.
    Step,
    /// The turn is about to end.
    Stop,
    /// The host has something for the user, such as that it waits.
    Idle,
}

/// An event, as far as the hosts agree on it.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    hook_event_name: String,
    /// The host's session.
    pub session_id: String,
    /// Whether a hook has kept this turn from ending.
    #[serde(default)]
    pub stop_hook_active: bool,
    /// How the session starts.
    source: Option<String>,
    prompt_id: Option<String>,
    turn_id: Option<String>,
    /// The agent below the session's own in which the event happened.
    pub agent_id: Option<String>,
}

impl Event {
    /// Returns the point in the session; `None` for events that need no answer.
    pub(super) fn point(&self) -> Option<Point> {
        match self.hook_event_name.as_str() {
            "SessionStart" => Some(Point::Start),
            "UserPromptSubmit" => Some(Point::Prompt),
            "PostToolUse" => Some(Point::Step),
            "Stop" => Some(Point::Stop),
            "Notification" => Some(Point::Idle),
            _ => None,
        }
    }

    /// Returns whether the session starts in a new process.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.source.as_deref(), None | Some("startup" | "resume"))
    }

    /// Returns the id of the turn: Claude Code names its prompt, Codex the turn.
    pub(super) fn turn(&self) -> Option<&str> {
        self.prompt_id.as_deref().or(self.turn_id.as_deref())
    }
}

impl Host {
    /// Returns the answer that shows a text to the model, or at [`Point::Idle`] to the user.
    pub(super) fn answer(self, point: Point, text: &str) -> Value {
        let context = |event: &str| json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } });
        match point {
            Point::Start => context("SessionStart"),
            Point::Prompt => context("UserPromptSubmit"),
            Point::Step => context("PostToolUse"),
            Point::Stop if self == Self::Claude && takes_context(variable("AI_AGENT").as_deref()) => {
                context("Stop")
            }
            Point::Stop => json!({ "decision": "block", "reason": text }),
            Point::Idle => json!({ "systemMessage": text }),
        }
    }
}

/// Returns how often in a row a turn may be kept from ending.
pub(super) fn most_stops() -> u32 {
    let set = variable("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").and_then(|most| most.parse().ok());
    set.unwrap_or(STOPS).min(STOPS)
}

/// Returns whether the session stays open when its turn ends: Claude Code without a person (`claude -p`, its SDKs) ends
/// then, and would wait for a hook in the background.
pub(super) fn stays_open() -> bool {
    let begun = variable("CLAUDE_CODE_ENTRYPOINT").unwrap_or_default();
    !begun.starts_with("sdk") && variable("CLAUDE_CODE_SESSION_ATTENDED").as_deref() != Some("0")
}

/// Returns whether the host, which names itself like `claude-code_2-1-332_harness`, takes context at the end of a turn.
fn takes_context(host: Option<&str>) -> bool {
    let version = host.and_then(|name| name.strip_prefix("claude-code_")?.split('_').next());
    let parts = version.unwrap_or_default().split('-').map_while(|part| part.parse().ok());
    parts.collect::<Vec<u32>>().as_slice() >= CONTEXT_AT_STOP.as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_take_context_at_the_end_of_a_turn() {
        for name in [
            "claude-code_2-1-332_harness",
            "claude-code_2-1-1000_x",
            "claude-code_2-2-0",
            "claude-code_3-0-0_a",
        ] {
            assert!(takes_context(Some(name)), "{name}");
        }
        for name in [
            "claude-code_2-1-331_harness",
            "claude-code_2-1",
            "claude-code",
            "codex_9-9-9",
            "",
            "claude-code_x",
        ] {
            assert!(!takes_context(Some(name)), "{name}");
        }
        assert!(!takes_context(None));
    }
}
