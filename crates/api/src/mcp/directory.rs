//! Tools that list the participants: agents, and the people to whom a decision can be put.

use entente_arcp::inventory;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAGE;
use entente_domain::openintent::agents::AgentStatus;
use entente_kernel::identity::people;
use entente_openintent::agents;
use entente_openintent::agents::AgentFilter;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::{gives, list, may, must, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, within};

/// Default page size.
const STEP: u32 = 100;

/// The statuses of an agent.
const STATUSES: [&str; 6] = ["registering", "active", "draining", "unhealthy", "dead", "deregistered"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 2] {
    [agents_tool(), people_tool()]
}

fn agents_tool() -> Tool {
    let agent = gives(vec![must("agent_id", text("The agent.")), must("status", text("Its status."))]);
    let runner = gives(vec![
        must("name", text("The agent.")),
        must("versions", list(text("A version."), "Its versions.")),
    ]);
    Tool {
        name: "list_agents",
        title: "List agents",
        about: "Lists the registered agents (`agents`), to whom you can send messages, and the agents that run jobs \
                (`job_agents`), to whom submit_job gives jobs.",
        takes: takes(vec![
            may("status", word("Only agents in this status.", &STATUSES)),
            may("role_id", text("Only agents with this role.")),
            may("limit", whole("Maximum number of agents; defaults to 100.", 1, i64::from(PAGE))),
            may("after", text("`next` of the last answer.")),
        ]),
        example: json!({ "status": "active" }),
        gives: gives(vec![
            must("agents", list(agent, "The agents.")),
            must("job_agents", list(runner, "The agents that run jobs.")),
            must("next", json!({ "type": ["string", "null"] })),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(list_agents(call)),
    }
}

fn people_tool() -> Tool {
    let person = gives(vec![
        must("id", text("The person.")),
        must("display_name", json!({ "type": ["string", "null"] })),
    ]);
    Tool {
        name: "list_people",
        title: "List people",
        about: "Lists the people whom ask_principal can ask.",
        takes: takes(vec![
            may("limit", whole("Maximum number of people; defaults to 100.", 1, i64::from(PAGE))),
            may("after", text("`next` of the last answer.")),
        ]),
        example: json!({}),
        gives: gives(vec![
            must("people", list(person, "The people.")),
            must("next", json!({ "type": ["string", "null"] })),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(list_people(call)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentsArgs {
    status: Option<AgentStatus>,
    role_id: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

async fn list_agents(call: Call) -> ToolResult {
    let said: AgentsArgs = call.read()?;
    let (ctx, caller) = (call.ctx(), &call.caller);
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let first = said.after.is_none();
    let filter = AgentFilter { status: said.status, role_id: said.role_id, after: said.after, limit };
    let runs = caller.has(Scope::JobsRead) || caller.has(Scope::JobsWork);
    // A key that may see only one of the two lists gets that one.
    let found = if runs && !caller.has(Scope::AgentsRead) {
        Vec::new()
    } else {
        agents::list(&ctx.openintent, caller, &filter).await?
    };
    let next = found.last().filter(|_| found.len() >= limit as usize).map(|agent| agent.agent_id.clone());
    let agents: Vec<Value> = found
        .iter()
        .map(|agent| {
            json!({
                "agent_id": agent.agent_id, "status": agent.status, "role_id": agent.role_id, "name": agent.name,
                "capabilities": agent.capabilities,
            })
        })
        .collect();
    let mut job_agents = Vec::new();
    if runs && first {
        for (name, known) in inventory::list(&ctx.arcp, caller).await? {
            let versions = known.versions;
            job_agents
                .push(json!({ "name": name, "versions": versions.registered, "default": versions.default }));
        }
    }
    let summary = format!("{} agent(s), and {} that run jobs.", agents.len(), job_agents.len());
    Answer::new(summary, &json!({ "agents": agents, "job_agents": job_agents, "next": next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeopleArgs {
    limit: Option<u32>,
    after: Option<String>,
}

async fn list_people(call: Call) -> ToolResult {
    let said: PeopleArgs = call.read()?;
    let limit = within("limit", said.limit, STEP, 1, PAGE)?;
    let found = people::list(call.ctx(), &call.caller, said.after.as_deref(), limit).await?;
    let next = found.last().filter(|_| found.len() >= limit as usize).map(|person| person.id.clone());
    let people: Vec<Value> =
        found.iter().map(|person| json!({ "id": person.id, "display_name": person.display_name })).collect();
    Answer::new(format!("{} people.", people.len()), &json!({ "people": people, "next": next }))
}
