//! Report of applying a workflow, step by step.

use serde_json::{Value, json};

use crate::remote::Failure;

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was created.
    Created,
    /// It was changed to match the file.
    Changed,
    /// It matched the file already.
    Unchanged,
    /// It differs from the file, and the server cannot change it.
    Differs,
    /// The server refused.
    Failed,
    /// A dependency failed.
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

/// One step.
#[derive(Debug)]
struct Step {
    thing: &'static str,
    name: String,
    outcome: Outcome,
    id: Option<String>,
    detail: Option<String>,
}

/// All steps, in their order of execution.
#[derive(Debug, Default)]
pub(super) struct Report {
    steps: Vec<Step>,
    /// The intent's id, once it is known.
    pub intent: Option<String>,
}

/// Result of a step: its outcome, its id, and details.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub outcome: Outcome,
    pub id: Option<String>,
    pub detail: Option<String>,
}

impl Told {
    /// Creates a result with the id of `record`.
    pub(super) fn new(outcome: Outcome, record: &Value) -> Self {
        let id = ["id", "agent_id"].iter().find_map(|member| record[*member].as_str());
        Self { outcome, id: id.map(str::to_owned), detail: None }
    }

    /// Adds details.
    pub(super) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()).filter(|detail| !detail.is_empty()), ..self }
    }

    /// Creates the result for a missing dependency.
    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Skipped, id: None, detail: Some(why.into()) }
    }
}

impl Report {
    /// Records a step, and returns the id of its record if there is one.
    pub(super) fn note(
        &mut self,
        thing: &'static str,
        name: &str,
        told: Result<Told, Failure>,
    ) -> Option<String> {
        let Told { outcome, id, detail } = told.unwrap_or_else(|failure| Told {
            outcome: Outcome::Failed,
            id: None,
            detail: Some(failure.full()),
        });
        self.steps.push(Step { thing, name: name.to_owned(), outcome, id: id.clone(), detail });
        id
    }

    /// Creates an empty report on an intent.
    pub(super) fn of(intent: Option<String>) -> Self {
        Self { steps: Vec::new(), intent }
    }

    /// Adds the steps of a part.
    pub(super) fn absorb(&mut self, part: Self) {
        self.steps.extend(part.steps);
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.steps.iter().filter(|step| step.outcome == outcome).count()
    }

    /// Returns the report as JSON.
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

    /// Checks whether the server now matches the file.
    ///
    /// # Errors
    /// A sentence on the steps that failed.
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
