//! Wire format of the intents that triggers create. Some members also have aliases from the vendor's guide.

use entente_domain::openintent::intents::IntentStatus;
use entente_domain::openintent::triggers::making::{Assigned, IntentTemplate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An agent to assign to the created intent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggerAssignment)]
struct AssignmentBody {
    /// The agent.
    agent_id: String,
    /// Role of the agent; defaults to `worker`.
    #[serde(default = "worker")]
    role: String,
}

fn worker() -> String {
    "worker".to_owned()
}

/// The intent that a trigger creates.
///
/// In every text, `{{ path }}` is replaced by a value of the occasion: `trigger.…`, `event.…`, and for
/// webhooks `body.…`, `headers.…`, `query.…`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggerTemplate)]
#[schema(example = json!({ "type": "compliance.review", "title": "Review of {{ today }}", "assignee": "agent.auditor" }))]
#[serde(default)]
pub struct TemplateBody {
    /// Type of the intent, a free-form word; deduplication compares it.
    r#type: String,
    /// Title of the intent; defaults to the trigger's name if empty.
    title: String,
    /// Description of the intent.
    description: String,
    /// Priority of the intent.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<String>,
    /// Agent assigned to the intent.
    #[serde(alias = "assign", skip_serializing_if = "Option::is_none")]
    assignee: Option<String>,
    /// Further assigned agents.
    assignments: Vec<AssignmentBody>,
    /// Initial state of the intent.
    #[serde(alias = "initial_state")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// Initial state under the name that intents use; takes precedence over `context`.
    #[schema(value_type = Object)]
    state: Map<String, Value>,
    /// Constraints of the intent.
    #[schema(value_type = Object)]
    constraints: Map<String, Value>,
    /// The parent intent.
    #[serde(alias = "parent_id", skip_serializing_if = "Option::is_none")]
    parent_intent_id: Option<String>,
    /// Initial status; defaults to `draft`.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<IntentStatus>,
    /// Free-form label of the graph that the intent belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_id: Option<String>,
    /// Free-form tags.
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
