//! State transitions of a plan (RFC-0012): changes by agents, ends of its tasks, and decisions at its checkpoints.

use serde_json::{Map, Value, json};

use super::{Gate, GateStatus, OnFailure, Plan, PlanAsk, PlanState};
use crate::access::check_list;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::TaskId;
use crate::limits::{METADATA_BYTES, PLAN_CHECKPOINTS, PLAN_TASKS};
use crate::log::kinds::Kind;
use crate::openintent::tasks::{TaskStatus, check_size, graph};
use crate::refusal::{Code, Refusal};

/// A plan during a change, with the events to record and the effect on its open tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanCourse {
    /// The plan.
    pub plan: Plan,
    /// Events to record.
    pub told: Vec<(Kind, Value)>,
    /// Status that its open tasks end with, if they end.
    pub ends_tasks: Option<TaskStatus>,
    /// Version at the start: all changes of one course increment the version once.
    base: i64,
}

impl PlanCourse {
    /// Starts a change of a plan.
    #[must_use]
    pub fn of(plan: Plan) -> Self {
        let base = plan.version;
        Self { plan, told: Vec::new(), ends_tasks: None, base }
    }

    pub(super) fn write(&mut self, ask: PlanAsk) -> Result<Vec<&'static str>, Refusal> {
        let plan = &mut self.plan;
        let mut written = Vec::new();
        let too_long = |member: &str, most: usize| {
            let message = format!("`{member}` has at most {most} items.");
            Refusal::field(Code::TooLarge, member, "too_long", message)
        };
        if let Some(tasks) = ask.tasks {
            plan.tasks = graph::distinct(tasks);
            written.push("tasks");
        }
        if let Some(gates) = ask.gates {
            plan.gates = kept(&plan.gates, gates);
            written.push("checkpoints");
        }
        if let Some(conditions) = ask.conditions {
            plan.conditions = conditions;
            written.push("conditions");
        }
        if let Some(on_failure) = ask.on_failure {
            plan.on_failure = on_failure;
            written.push("on_failure");
        }
        if let Some(on_complete) = ask.on_complete {
            check_name("on_complete", &on_complete)?;
            plan.on_complete = on_complete;
            written.push("on_complete");
        }
        if let Some(metadata) = ask.metadata {
            plan.metadata = metadata;
            written.push("metadata");
        }
        if plan.tasks.len() > PLAN_TASKS {
            return Err(too_long("tasks", PLAN_TASKS));
        }
        if plan.gates.len() > PLAN_CHECKPOINTS || plan.conditions.len() > PLAN_CHECKPOINTS {
            return Err(too_long("checkpoints` or `conditions", PLAN_CHECKPOINTS));
        }
        for (index, gate) in plan.gates.iter_mut().enumerate() {
            if gate.id.is_empty() {
                gate.id = format!("checkpoint-{}", index + 1);
            }
            check_name("checkpoints", &gate.id)?;
            check_list("approvers", &gate.approvers)?;
        }
        check_size("checkpoints", &plan.gates, METADATA_BYTES)?;
        check_size("conditions", &plan.conditions, METADATA_BYTES)?;
        check_size("metadata", &plan.metadata, METADATA_BYTES)?;
        Ok(written)
    }

    /// Changes the plan.
    ///
    /// Any state that is not terminal may become any other. A terminal state is final, and the remaining open tasks
    /// end with it.
    ///
    /// # Errors
    /// The plan is over, a member exceeds its limit, or (strict mode) RFC-0012 does not allow the transition.
    pub fn change(&mut self, ask: PlanAsk, strict: bool, now: Timestamp) -> Result<(), Refusal> {
        let (from, to) = (self.plan.state, ask.state.unwrap_or(self.plan.state));
        self.require_open()?;
        let lawful = match from {
            PlanState::Draft => matches!(to, PlanState::Draft | PlanState::Active | PlanState::Cancelled),
            _ => to != PlanState::Draft,
        };
        if strict && !lawful {
            let message = format!("This plan is {} and cannot become {}.", from.as_str(), to.as_str());
            return Err(Refusal::new(Code::InvalidTransition, message));
        }
        let written = self.write(PlanAsk { state: None, ..ask })?;
        if !written.is_empty() {
            // As with channels and tasks, creation and change share one type (OI-5.6.1).
            self.tell(Kind::PlanCreated, json!({ "updated": written }));
        }
        if to != from {
            self.enter(to, json!({}));
        }
        self.save(now);
        Ok(())
    }

    /// Applies the end of one of the plan's tasks; `statuses` are those of all its tasks.
    pub fn task_ended(
        &mut self,
        task: TaskId,
        status: TaskStatus,
        statuses: &[(TaskId, TaskStatus)],
        now: Timestamp,
    ) {
        if self.plan.state.is_terminal() {
            return;
        }
        if status == TaskStatus::Completed {
            self.reach(&task.to_string(), now);
        }
        let failed = statuses.iter().any(|(_, status)| *status == TaskStatus::Failed);
        let over = statuses.iter().all(|(_, status)| status.is_terminal());
        let because = json!({ "task_id": task });
        if failed && (over || self.plan.on_failure == OnFailure::Fail) {
            self.enter(PlanState::Failed, because);
        } else if self.is_done(statuses) {
            self.enter(PlanState::Completed, json!({}));
        } else if status == TaskStatus::Failed
            && self.plan.on_failure == OnFailure::PauseAndEscalate
            && self.plan.state != PlanState::Paused
        {
            self.enter(PlanState::Paused, because);
        }
        self.save(now);
    }

    /// Applies tasks that ended before the plan was written: reaches their checkpoints, and ends an active plan with
    /// no work left.
    ///
    /// `statuses` are those of all its tasks.
    pub fn look(&mut self, statuses: &[(TaskId, TaskStatus)], now: Timestamp) {
        if self.plan.state.is_terminal() {
            return;
        }
        let told = self.told.len();
        for (task, _) in statuses.iter().filter(|(_, status)| *status == TaskStatus::Completed) {
            self.reach(&task.to_string(), now);
        }
        if self.plan.state == PlanState::Active {
            self.conclude(statuses);
        }
        if self.told.len() > told {
            self.save(now);
        }
    }

    /// Ends a plan with no work left.
    fn conclude(&mut self, statuses: &[(TaskId, TaskStatus)]) {
        if self.is_done(statuses) {
            let failed = statuses.iter().any(|(_, status)| *status == TaskStatus::Failed);
            self.enter(if failed { PlanState::Failed } else { PlanState::Completed }, json!({}));
        }
    }

    /// Returns whether no work is left; false for a paused plan, because somebody paused it and has to resume it.
    fn is_done(&self, statuses: &[(TaskId, TaskStatus)]) -> bool {
        let over = !statuses.is_empty() && statuses.iter().all(|(_, status)| status.is_terminal());
        over && !self.waits() && self.plan.state != PlanState::Paused
    }

    fn reach(&mut self, task: &str, now: Timestamp) {
        let due = |gate: &Gate| gate.after_task == task && gate.status == GateStatus::Pending;
        for index in 0..self.plan.gates.len() {
            let Some(gate) = self.plan.gates.get_mut(index).filter(|gate| due(gate)) else { continue };
            gate.status = if gate.requires_approval { GateStatus::Reached } else { GateStatus::Approved };
            if !gate.requires_approval {
                gate.approved_at = Some(now);
            }
            let told = json!({
                "checkpoint_id": gate.id, "checkpoint": gate.name, "task_id": task,
                "requires_approval": gate.requires_approval, "approvers": gate.approvers,
            });
            self.tell(Kind::PlanCheckpointReached, told);
        }
    }

    /// Decides a checkpoint: the plan continues, or is paused.
    ///
    /// `statuses` are those of all its tasks; `by` is the agent and whether it manages the intent.
    ///
    /// # Errors
    /// The plan is over, no such checkpoint waits for a decision, or the agent may not decide it.
    pub fn decide(
        &mut self,
        gate: &str,
        approve: bool,
        by: (&str, bool),
        statuses: &[(TaskId, TaskStatus)],
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.require_open()?;
        let (agent, manages) = by;
        let waiting = |known: &&mut Gate| known.id == gate && known.status == GateStatus::Reached;
        let Some(gate) = self.plan.gates.iter_mut().find(waiting) else {
            return Err(Refusal::not_found("checkpoint that waits for a decision"));
        };
        let named = gate.approvers.iter().any(|approver| approver == agent);
        if !(named || gate.approvers.is_empty() && manages) {
            return Err(Refusal::new(
                Code::Forbidden,
                "Only the approvers of this checkpoint decide it, or those who manage the intent when it names none.",
            ));
        }
        gate.status = if approve { GateStatus::Approved } else { GateStatus::Rejected };
        gate.approved_by = Some(agent.to_owned());
        gate.approved_at = Some(now);
        let told = json!({ "checkpoint_id": gate.id, "checkpoint": gate.name, "decided_by": agent });
        let kind = if approve { Kind::PlanCheckpointApproved } else { Kind::PlanCheckpointRejected };
        self.tell(kind, told);
        if approve {
            self.conclude(statuses);
        } else if self.plan.state != PlanState::Paused {
            self.enter(PlanState::Paused, json!({}));
        }
        self.save(now);
        Ok(())
    }

    pub(super) fn enter(&mut self, state: PlanState, because: Value) {
        let kind = match (self.plan.state, state) {
            (_, PlanState::Draft) => Kind::PlanCreated,
            (PlanState::Paused, PlanState::Active) => Kind::PlanResumed,
            (_, PlanState::Active) => Kind::PlanActivated,
            (_, PlanState::Paused) => Kind::PlanPaused,
            (_, PlanState::Completed) => Kind::PlanCompleted,
            // The SDK has no type for a cancelled plan; `state` shows it.
            (_, PlanState::Failed | PlanState::Cancelled) => Kind::PlanFailed,
        };
        self.plan.state = state;
        self.tell(kind, because);
        if state.is_terminal() {
            let needless = state == PlanState::Completed;
            self.ends_tasks = Some(if needless { TaskStatus::Skipped } else { TaskStatus::Cancelled });
        }
    }

    fn require_open(&self) -> Result<(), Refusal> {
        if !self.plan.state.is_terminal() {
            return Ok(());
        }
        Err(Refusal::new(Code::InvalidTransition, "This plan is over and never changes again."))
    }

    /// Returns whether a checkpoint waits for a decision.
    fn waits(&self) -> bool {
        self.plan.waits_at().is_some()
    }

    fn save(&mut self, now: Timestamp) {
        if !self.told.is_empty() {
            self.plan.version = self.base + 1;
            self.plan.updated_at = now;
        }
    }

    pub(super) fn tell(&mut self, kind: Kind, more: Value) {
        let mut payload = match more {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        payload.insert("plan_id".to_owned(), json!(self.plan.id));
        payload.insert("state".to_owned(), json!(self.plan.state));
        self.told.push((kind, Value::Object(payload)));
    }
}

/// Returns the requested checkpoints with the status of the known ones.
///
/// A checkpoint that waits for a decision stays unchanged: rewriting the plan must not bypass it.
fn kept(known: &[Gate], asked: Vec<Gate>) -> Vec<Gate> {
    let mut gates: Vec<Gate> = asked
        .into_iter()
        .map(|ask| match known.iter().find(|gate| gate.id == ask.id) {
            Some(gate) if gate.status == GateStatus::Reached => gate.clone(),
            Some(gate) => Gate {
                status: gate.status,
                approved_by: gate.approved_by.clone(),
                approved_at: gate.approved_at,
                ..ask
            },
            None => Gate { status: GateStatus::Pending, approved_by: None, approved_at: None, ..ask },
        })
        .collect();
    let waits = known.iter().filter(|gate| gate.status == GateStatus::Reached);
    let dropped: Vec<Gate> =
        waits.filter(|gate| gates.iter().all(|other| other.id != gate.id)).cloned().collect();
    gates.extend(dropped);
    gates
}
