//! What a trigger makes, on the wire. The vendor's guide has other names for some members, which are read too.

use entente_domain::intents::IntentStatus;
use entente_domain::triggers::making::{Assigned, IntentTemplate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An agent that is assigned to what is made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggerAssignment)]
struct AssignmentBody {
    /// The agent.
    agent_id: String,
    /// As what; `worker` when nothing is said.
    #[serde(default = "worker")]
    role: String,
}

fn worker() -> String {
    "worker".to_owned()
}

/// The intent that a trigger makes. In every text `{{ path }}` stands for what happened: `trigger.…`, `event.…`, and of
/// webhooks `body.…`, `headers.…`, `query.…`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggerTemplate)]
#[schema(example = json!({ "type": "compliance.review", "title": "Review of {{ today }}", "assignee": "agent.auditor" }))]
#[serde(default)]
pub struct TemplateBody {
    /// Your own word for what kind of intent it is; deduplication goes by it.
    r#type: String,
    /// The goal in a line; the trigger's name when it is empty.
    title: String,
    /// The goal in full.
    description: String,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<String>,
    /// Who is assigned to it.
    #[serde(alias = "assign", skip_serializing_if = "Option::is_none")]
    assignee: Option<String>,
    /// Who else is.
    assignments: Vec<AssignmentBody>,
    /// What it begins with in its state.
    #[serde(alias = "initial_state")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// The same, by the name that intents have for it; goes before `context`.
    #[schema(value_type = Object)]
    state: Map<String, Value>,
    /// What must hold on the way.
    #[schema(value_type = Object)]
    constraints: Map<String, Value>,
    /// The intent that it is a part of.
    #[serde(alias = "parent_id", skip_serializing_if = "Option::is_none")]
    parent_intent_id: Option<String>,
    /// The status to begin in; `draft` when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<IntentStatus>,
    /// Your own word for where it belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_id: Option<String>,
    /// Your own words.
    tags: Vec<String>,
}

impl From<TemplateBody> for IntentTemplate {
    fn from(body: TemplateBody) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let assigned = |one: AssignmentBody| Assigned { agent_id: one.agent_id, role: one.role };
        Self {
            r#type: body.r#type,
            title: body.title,
            description: body.description,
            priority: body.priority,
            assignee: given(body.assignee),
            assignments: body.assignments.into_iter().map(assigned).collect(),
            context: body.context,
            state: body.state,
            constraints: body.constraints,
            parent_intent_id: given(body.parent_intent_id),
            status: body.status,
            graph_id: body.graph_id,
            tags: body.tags,
        }
    }
}

impl From<IntentTemplate> for TemplateBody {
    fn from(template: IntentTemplate) -> Self {
        let assigned = |one: Assigned| AssignmentBody { agent_id: one.agent_id, role: one.role };
        Self {
            r#type: template.r#type,
            title: template.title,
            description: template.description,
            priority: template.priority,
            assignee: template.assignee,
            assignments: template.assignments.into_iter().map(assigned).collect(),
            context: template.context,
            state: template.state,
            constraints: template.constraints,
            parent_intent_id: template.parent_intent_id,
            status: template.status,
            graph_id: template.graph_id,
            tags: template.tags,
        }
    }
}
