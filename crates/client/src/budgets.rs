//! `entente budget`, `entente team`, `entente stop` and `entente spend`: limits, spending, and the switch.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::Done;
use super::principals::quotas::Limits;
use super::remote::{Remote, segment};

/// Members of a budget that a line shows.
const SHOWN: [&str; 9] = ["id", "scope", "window", "unit", "limit", "spent", "reserved", "left", "forecast"];

/// Budgets: limits for the spending of the system, a team, a principal, an agent, an intent or a key
#[derive(Debug, Args)]
pub(super) struct Budgets {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a budget
    Create {
        /// Whose spending it limits: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`
        scope: String,
        /// The limit of each window
        limit: String,
        /// A currency, or another unit such as `tokens`
        unit: String,
        /// How often it begins anew: `total`, `hour`, `day`, `week` or `month`
        #[arg(long, default_value = "total")]
        window: String,
        /// IANA time zone in which its windows begin
        #[arg(long)]
        time_zone: Option<String>,
        /// A name
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        said: Box<Thresholds>,
    },
    /// List budgets with their use
    List {
        /// Budgets of this scope alone
        #[arg(long)]
        scope: Option<String>,
    },
    /// Show a budget
    Show {
        /// The budget's id
        id: String,
    },
    /// Change the limit of each window, the present one included
    Limit {
        /// The budget's id
        id: String,
        /// The new limit
        limit: String,
    },
    /// Raise the limit in the present window
    Raise {
        /// The budget's id
        id: String,
        /// The amount
        amount: String,
    },
    /// Close a budget: it limits nothing any more
    Close {
        /// The budget's id
        id: String,
    },
}

/// Reads `PERCENT=REST`.
fn percent(text: &str) -> Result<(u32, &str), String> {
    let parts = text.split_once('=').and_then(|(percent, rest)| Some((percent.trim().parse().ok()?, rest)));
    parts.ok_or_else(|| format!("`{text}` must be PERCENT=…, such as 80=alice"))
}

/// The options of thresholds.
#[derive(Debug, Args)]
struct Thresholds {
    /// Per cent at which a person is asked, as `PERCENT=PERSON`; repeat for several
    #[arg(long, value_name = "PERCENT=PERSON")]
    ask: Vec<String>,
    /// Per cent from which only these models are allowed, as `PERCENT=PATTERN,PATTERN`; repeat for several
    #[arg(long, value_name = "PERCENT=PATTERNS")]
    models: Vec<String>,
    /// Per cent from which only these tools are allowed, as `PERCENT=PATTERN,PATTERN`; repeat for several
    #[arg(long, value_name = "PERCENT=PATTERNS")]
    tools: Vec<String>,
    /// Per cent at which the scope is stopped; repeat for several
    #[arg(long, value_name = "PERCENT")]
    stop: Vec<u32>,
    /// Per cent at which an event is recorded; repeat for several
    #[arg(long, value_name = "PERCENT")]
    notify: Vec<u32>,
}

/// The thresholds of the options, one for each percentage.
fn thresholds(said: &Thresholds) -> Result<Vec<Value>, String> {
    let Thresholds { ask, models, tools, stop, notify } = said;
    let mut found: std::collections::BTreeMap<u32, Map<String, Value>> = std::collections::BTreeMap::new();
    for one in ask {
        let (percent, person) = percent(one)?;
        found.entry(percent).or_default().insert("ask".to_owned(), json!({ "person": person }));
    }
    for (member, given) in [("models", models), ("tools", tools)] {
        for one in given {
            let (percent, patterns) = percent(one)?;
            let patterns: Vec<&str> =
                patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()).collect();
            let degrade = found.entry(percent).or_default().entry("degrade").or_insert_with(|| json!({}));
            match degrade[member].as_array_mut() {
                Some(before) => before.extend(patterns.into_iter().map(Value::from)),
                None => degrade[member] = json!(patterns),
            }
        }
    }
    for percent in stop {
        found.entry(*percent).or_default().insert("stop".to_owned(), json!(true));
    }
    for percent in notify {
        found.entry(*percent).or_default();
    }
    let threshold = |(percent, mut one): (u32, Map<String, Value>)| {
        one.insert("percent".to_owned(), json!(percent));
        Value::Object(one)
    };
    Ok(found.into_iter().map(threshold).collect())
}

/// A budget with the members of its usage beside its own.
fn flat(budget: &Value) -> Value {
    let mut flat = budget.clone();
    if let (Some(flat), Some(usage)) = (flat.as_object_mut(), budget.get("usage").and_then(Value::as_object))
    {
        for member in ["spent", "reserved", "left", "limit", "forecast"] {
            flat.insert(member.to_owned(), usage.get(member).cloned().unwrap_or_default());
        }
    }
    flat
}

/// The `max_cost` of an intent as budgets without an id, one for each unit in which something was spent or reserved.
fn cost_limit(found: &Value) -> Vec<Value> {
    let usage = found["usage"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |usage: &Value| {
        json!({
            "id": "max_cost", "scope": format!("intent:{}", found["intent_id"].as_str().unwrap_or_default()),
            "window": "total", "limit": found["limit"], "unit": usage["unit"], "spent": usage["spent"],
            "reserved": usage["reserved"], "left": usage["left"],
        })
    };
    match usage {
        [] if found.is_object() => {
            vec![line(&json!({ "unit": "each", "spent": 0, "reserved": 0, "left": found["limit"] }))]
        }
        usage => usage.iter().map(line).collect(),
    }
}

impl Budgets {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let one = |id: &str| format!("/budgets/{}", segment(id));
        let answer = match self.verb {
            Verb::Create { scope, limit, unit, window, time_zone, name, said } => {
                let thresholds = thresholds(&said)?;
                let body = json!({
                    "scope": scope, "limit": limit, "unit": unit, "window": window, "time_zone": time_zone, "name": name,
                    "thresholds": thresholds,
                });
                api.post("/budgets", &body).await?
            }
            Verb::List { scope } => {
                let query: Vec<_> = scope.into_iter().map(|scope| ("scope", scope)).collect();
                let found = api.get("/budgets", &query).await?;
                if self.remote.json {
                    return self.remote.show(&found, &[]);
                }
                let budgets = found["budgets"].as_array().map(Vec::as_slice).unwrap_or_default();
                let lines: Vec<_> =
                    budgets.iter().map(flat).chain(cost_limit(&found["cost_limit"])).collect();
                return self.remote.show(&json!(lines), &SHOWN);
            }
            Verb::Show { id } => api.get(&one(&id), &[]).await?,
            Verb::Limit { id, limit } => {
                api.act(Method::PATCH, &one(&id), &json!({ "limit": limit })).await?
            }
            Verb::Raise { id, amount } => {
                api.post(&format!("{}/raise", one(&id)), &json!({ "amount": amount })).await?
            }
            Verb::Close { id } => api.delete(&one(&id)).await?,
        };
        let shown = if self.remote.json { answer } else { flat(&answer) };
        self.remote.show(&shown, &SHOWN)
    }
}

/// Teams: named groups of principals, for budgets, quotas and stops
#[derive(Debug, Args)]
pub(super) struct Teams {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: TeamVerb,
}

#[derive(Debug, Subcommand)]
enum TeamVerb {
    /// Create a team, or replace its members
    Set {
        /// The team's name
        name: String,
        /// Its members: ids of principals
        members: Vec<String>,
    },
    /// List teams
    List,
    /// Show the quotas of a team with their use, or set them
    Quota {
        /// The team's name
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Delete a team
    #[command(alias = "remove")]
    Delete {
        /// The team's name
        name: String,
    },
}

impl Teams {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let one = |name: &str| format!("/teams/{}", segment(name));
        let answer = match self.verb {
            TeamVerb::Set { name, members } => {
                api.act(Method::PUT, &one(&name), &json!({ "members": members })).await?
            }
            TeamVerb::List => {
                let found = api.get("/teams", &[]).await?;
                if self.remote.json { found } else { found["teams"].clone() }
            }
            TeamVerb::Quota { name, limits } => {
                return limits.run(&self.remote, &api, &format!("{}/quotas", one(&name))).await;
            }
            TeamVerb::Delete { name } => api.delete(&one(&name)).await?,
        };
        self.remote.show(&answer, &["name", "members", "created_by", "created_at"])
    }
}

/// Stops: a scope starts nothing any more until the stop is lifted
#[derive(Debug, Args)]
pub(super) struct Stops {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: StopVerb,
}

#[derive(Debug, Subcommand)]
enum StopVerb {
    /// Stop a scope, on all servers within a second
    Now {
        /// Who is stopped: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`
        scope: String,
        /// Why; those who are stopped read it
        #[arg(long)]
        reason: String,
    },
    /// List the stops in force
    List {
        /// Lifted ones as well
        #[arg(long)]
        lifted: bool,
    },
    /// Lift a stop
    Lift {
        /// The stop's id
        id: String,
    },
}

impl Stops {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let answer = match self.verb {
            StopVerb::Now { scope, reason } => {
                api.post("/stops", &json!({ "scope": scope, "reason": reason })).await?
            }
            StopVerb::List { lifted } => {
                let found = api.get("/stops", &[("lifted", lifted.to_string())]).await?;
                if self.remote.json { found } else { found["stops"].clone() }
            }
            StopVerb::Lift { id } => api.delete(&format!("/stops/{}", segment(&id))).await?,
        };
        self.remote.show(&answer, &["id", "scope", "reason", "created_by", "created_at", "lifted_at"])
    }
}

/// Report spending
#[derive(Debug, Args)]
pub(super) struct Spend {
    #[command(flatten)]
    remote: Remote,
    /// Divide the sums by any of `agent`, `principal`, `intent`, `model`, `day`, separated by commas
    #[arg(long, default_value = "agent")]
    by: String,
    /// Costs from this time on [default: 30 days ago]
    #[arg(long)]
    from: Option<String>,
    /// Costs before this time [default: now]
    #[arg(long)]
    until: Option<String>,
    /// Costs of this scope alone
    #[arg(long)]
    scope: Option<String>,
    /// Time zone of the days
    #[arg(long)]
    time_zone: Option<String>,
}

impl Spend {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        let mut query = vec![("by", self.by)];
        let more = [
            ("from", self.from),
            ("until", self.until),
            ("scope", self.scope),
            ("time_zone", self.time_zone),
        ];
        query.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let found = api.get("/spend", &query).await?;
        if self.remote.json {
            return self.remote.show(&found, &[]);
        }
        let members = ["day", "agent_id", "principal_id", "intent_id", "model", "unit", "amount", "count"];
        self.remote.show(&found["lines"], &members)
    }
}
