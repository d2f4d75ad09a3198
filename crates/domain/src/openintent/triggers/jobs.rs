//! Jobs that triggers submit in place of creating intents (beyond RFC-0017): the template of a job, and its request for a
//! firing.

use serde_json::{Map, Value, json};

use super::making::FiringContext;
use super::template::{self, Filling, Unfilled};
use super::{Deduplication, Trigger, TriggerKind};
use crate::arcp::jobs::ask::{JobAsk, Submit};
use crate::ids::FiringId;
use crate::refusal::{Code, Refusal};

/// Members of a request that a template cannot have: the trigger gives the key, and a firing has no parent.
const OWN: [&str; 3] = ["idempotency_key", "parent_job_id", "delegate_id"];

/// Returns the idempotency key of a firing's job: however often the job is submitted, it is one.
fn key(firing: FiringId) -> String {
    format!("trigger:{firing}")
}

fn fault(kind: &str, message: String) -> Refusal {
    Refusal::field(Code::Unprocessable, "job", kind, message)
}

/// Reads a request without placeholders.
fn request(members: Map<String, Value>) -> Result<Submit, Refusal> {
    let submit: Submit = serde_json::from_value(Value::Object(members))
        .map_err(|e| fault("shape", format!("`job` is no request for a job: {e}.")))?;
    JobAsk::check(submit.clone())
        .map_err(|refusal| fault("value", format!("In `job`: {}", refusal.message)))?;
    Ok(submit)
}

impl Trigger {
    /// Checks its job, if it submits one.
    ///
    /// # Errors
    /// It would create intents too, or cannot submit jobs; the request is invalid, as far as it has no placeholders.
    pub(super) fn check_job(&self) -> Result<(), Refusal> {
        let Some(job) = &self.job else { return Ok(()) };
        if self.template.is_some() {
            let message =
                "A trigger creates intents or submits jobs. Send `intent_template` or `job`, not both.";
            return Err(fault("both", message.to_owned()));
        }
        if self.kind == TriggerKind::Event {
            // Jobs record events, and no chain of causes bounds the triggers that these would fire.
            let message = "`job` needs a trigger of the type `schedule` or `webhook`.";
            return Err(fault("type", message.to_owned()));
        }
        if self.deduplication == Deduplication::Queue {
            let message = "Jobs have a queue of their own. Use `deduplication` `allow`, or `skip` while the last job runs.";
            return Err(Refusal::field(Code::Unprocessable, "deduplication", "job", message));
        }
        if let Some(member) = OWN.into_iter().find(|member| job.contains_key(*member)) {
            return Err(fault("reserved", format!("`job` cannot have `{member}`. Leave it out.")));
        }
        if !job.get("agent").is_some_and(Value::is_string) {
            return Err(fault("missing", "`job` needs `agent`: the agent that runs the job.".to_owned()));
        }
        let whole = Value::Object(job.clone());
        template::check("job", &whole)?;
        // With placeholders it is known at the firing whether the request is valid.
        if whole.to_string().contains("{{") { Ok(()) } else { request(job.clone()).map(|_submit| ()) }
    }

    /// Returns the request for the job of a firing, as JSON; `None` if the trigger creates intents.
    ///
    /// # Errors
    /// A value that the template refers to is missing, or does not fit.
    pub fn make_job(&self, context: &FiringContext<'_>) -> Result<Option<String>, Unfilled> {
        let Some(job) = &self.job else { return Ok(None) };
        let known = self.known(context);
        let mut filled = Filling::new(&known).object(job)?;
        filled.insert("idempotency_key".to_owned(), json!(key(context.firing)));
        let submit =
            request(filled).map_err(|refusal| Unfilled(format!("makes no job. {}", refusal.message)))?;
        let text = serde_json::to_string(&submit).map_err(|e| Unfilled(format!("makes no job: {e}")))?;
        Ok(Some(text))
    }
}
