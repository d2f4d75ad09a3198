//! What applying a workflow came to, thing by thing.

use serde_json::{Value, json};

/// What became of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was made.
    Created,
    /// It was changed to what the file says.
    Changed,
    /// It was so already.
    Unchanged,
    /// It is otherwise, and the server has no way to change it.
    Differs,
    /// The server refused.
    Failed,
    /// Something that it needs failed.
    Skipped,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Differs => "differs",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One thing.
#[derive(Debug)]
struct Step {
    thing: &'static str,
    name: String,
    outcome: Outcome,
    id: Option<String>,
    detail: Option<String>,
}

/// All of them, in the order in which they were gone through.
#[derive(Debug, Default)]
pub(super) struct Report {
    steps: Vec<Step>,
    /// The intent, once it is known.
    pub intent: Option<String>,
}

/// What is to be said of a thing: its outcome, its id, and more.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub outcome: Outcome,
    pub id: Option<String>,
    pub detail: Option<String>,
}

impl Told {
    /// An outcome of a thing with this id.
    pub(super) fn new(outcome: Outcome, record: &Value) -> Self {
        let id = ["id", "agent_id"].iter().find_map(|member| record[*member].as_str());
        Self { outcome, id: id.map(str::to_owned), detail: None }
    }

    /// The same, with more to say.
    pub(super) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()).filter(|detail| !detail.is_empty()), ..self }
    }

    /// That something it needs is not there.
    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Skipped, id: None, detail: Some(why.into()) }
    }
}

impl Report {
    /// Notes what became of a thing; its id, when it is there.
    pub(super) fn note<E: std::fmt::Display>(
        &mut self,
        thing: &'static str,
        name: &str,
        told: Result<Told, E>,
    ) -> Option<String> {
        let Told { outcome, id, detail } = told.unwrap_or_else(|failure| Told {
            outcome: Outcome::Failed,
            id: None,
            detail: Some(failure.to_string()),
        });
        self.steps.push(Step { thing, name: name.to_owned(), outcome, id: id.clone(), detail });
        id
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.steps.iter().filter(|step| step.outcome == outcome).count()
    }

    /// The report as JSON.
    pub(super) fn answer(&self, workflow: &str, dry_run: bool) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "thing": step.thing, "name": step.name, "outcome": step.outcome.word(), "id": step.id,
                    "detail": step.detail,
                })
            })
            .collect();
        json!({
            "workflow": workflow, "intent_id": self.intent, "dry_run": dry_run, "steps": steps,
            "created": self.count(Outcome::Created), "changed": self.count(Outcome::Changed),
            "unchanged": self.count(Outcome::Unchanged), "differs": self.count(Outcome::Differs),
            "failed": self.count(Outcome::Failed), "skipped": self.count(Outcome::Skipped),
        })
    }

    /// Whether the server is now as the file says.
    ///
    /// # Errors
    /// What is missing, in a sentence.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let counts = [Outcome::Failed, Outcome::Skipped, Outcome::Differs].map(|outcome| self.count(outcome));
        if counts == [0, 0, 0] {
            return Ok(());
        }
        let [failed, skipped, differs] = counts;
        Err(format!(
            "the workflow is not as the file says: {failed} failed, {skipped} were not tried, {differs} differ and cannot be \
             changed. What was done stays; mend the cause and apply the file again"
        ))
    }
}
