//! Toolsets: which tools a host lists, by the `tools` of the endpoint's URL. A model pays for each tool that is listed; every
//! tool can be called, whichever are.

use std::str::FromStr;
use std::sync::LazyLock;

use actix_web::web;
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Value, json};

use super::{Tool, attention, core};

/// How long a host may cache a list, which changes only with the server's version.
pub(super) const LIST_TTL_MILLIS: u64 = 3_600_000;

/// The tools that a host lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Toolset {
    /// Intents, channels, tasks, jobs, mail and decisions.
    #[default]
    Core,
    /// Hand-overs, inbox, loops, search, turns and waits.
    Attention,
    /// All of them.
    All,
}

static CORE: LazyLock<Vec<Tool>> = LazyLock::new(|| sorted(core()));
static ATTENTION: LazyLock<Vec<Tool>> = LazyLock::new(|| sorted(attention::tools()));
static LISTS: LazyLock<[Value; 3]> =
    LazyLock::new(|| [Toolset::Core, Toolset::Attention, Toolset::All].map(Toolset::list));

fn sorted(mut tools: Vec<Tool>) -> Vec<Tool> {
    tools.sort_by_key(|tool| tool.name);
    tools
}

/// Returns the tool with this name.
pub(super) fn tool_named(name: &str) -> Option<&'static Tool> {
    Toolset::All.tools().find(|tool| tool.name == name)
}

impl Toolset {
    /// Returns the toolset that the query of a request names.
    ///
    /// # Errors
    /// There is no such toolset.
    pub fn of_query(query: &str) -> Result<Self, Refusal> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(query);
        let named = pairs.ok().and_then(|pairs| pairs.0.into_iter().find(|(name, _)| name == "tools"));
        named.map_or(Ok(Self::default()), |(_, name)| name.parse())
    }

    /// Returns the response to `tools/list`.
    pub fn listed(self) -> Value {
        LISTS[self as usize].clone()
    }

    fn tools(self) -> impl Iterator<Item = &'static Tool> {
        let core = CORE.iter().filter(move |_| self != Self::Attention);
        core.chain(ATTENTION.iter().filter(move |_| self != Self::Core))
    }

    fn list(self) -> Value {
        let tools: Vec<Value> = self.tools().map(Tool::listed).collect();
        json!({ "tools": tools, "ttlMs": LIST_TTL_MILLIS, "cacheScope": "public", "resultType": "complete" })
    }
}

impl FromStr for Toolset {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Self, Refusal> {
        match name {
            "core" => Ok(Self::Core),
            "attention" => Ok(Self::Attention),
            "all" => Ok(Self::All),
            other => {
                let message = format!("`tools` must be `core`, `attention` or `all`, not `{other}`.");
                Err(Refusal::new(Code::InvalidParameter, message))
            }
        }
    }
}
