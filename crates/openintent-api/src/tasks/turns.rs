//! Steps of tasks in a turn, as `POST /turn` and the tool `turn` take them.

use entente_domain::ids::IntentId;
use entente_domain::openintent::tasks::change::Verb;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::id_of_item;
use entente_openintent::tasks::within::TaskStep;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::CreateBody;

/// Action on a task. The other actions concern other agents, whose records a turn does not lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TurnTaskVerb)]
enum StepVerb {
    Create,
    Claim,
    Start,
    Complete,
    Fail,
    Block,
    Unblock,
    Release,
}

/// A step of a task.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnTask, example = json!({ "verb": "complete", "task_id": "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "output": { "pages": 12 } }))]
pub struct TurnTaskBody {
    /// The action.
    verb: StepVerb,
    /// The task; none with `create`.
    task_id: Option<String>,
    /// Token of your claim; if the claim no longer holds, the turn is refused.
    claim_token: Option<i64>,
    /// `complete`: result of the task.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// `complete`: references to artifacts of the work.
    artifacts: Option<Vec<String>>,
    /// `fail`: the error.
    error: Option<String>,
    /// `block`: the reason.
    reason: Option<String>,
    /// `create`: the task, as `POST /tasks` takes it.
    task: Option<CreateBody>,
}

fn missing(member: &str, message: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, "missing", message)
}

impl TurnTaskBody {
    /// Checks the step.
    ///
    /// # Errors
    /// An id is none; a member that the verb needs is missing.
    pub fn step(self) -> Result<TaskStep, Refusal> {
        let verb = match self.verb {
            StepVerb::Create => {
                let message = "`task` is missing: with `create` it has what `POST /tasks` takes.";
                let task = self.task.ok_or_else(|| missing("task", message))?;
                let intent = task.intent_id.as_deref();
                let intent =
                    intent.ok_or_else(|| missing("intent_id", "`intent_id` of the `task` is missing."))?;
                let intent_id: IntentId = id_of_item("intent", intent)?;
                return Ok(TaskStep::Create { intent_id, ask: Box::new(task.ask()?) });
            }
            StepVerb::Claim => Verb::Claim,
            StepVerb::Start => Verb::Start,
            StepVerb::Complete => Verb::Complete { output: self.output, artifacts: self.artifacts },
            StepVerb::Fail => Verb::Fail { error: self.error.or(self.reason), for_good: false },
            StepVerb::Block => Verb::Block(self.reason),
            StepVerb::Unblock => Verb::Unblock,
            StepVerb::Release => Verb::HandBack,
        };
        let id = self.task_id.ok_or_else(|| missing("task_id", "`task_id` is missing. Say which task."))?;
        Ok(TaskStep::Act { id: id_of_item("task", &id)?, token: self.claim_token, verb })
    }
}
