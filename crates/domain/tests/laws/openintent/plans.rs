//! Plans (RFC-0012): a plan ends once, with its tasks; the result does not depend on the order in which its tasks
//! end; and only a decision passes a checkpoint.

use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::log::kinds::Kind;
use entente_domain::openintent::plans::course::PlanCourse;
use entente_domain::openintent::plans::{
    Gate, GateStatus, OnFailure, OnTimeout, Plan, PlanAsk, PlanState, create,
};
use entente_domain::openintent::tasks::TaskStatus;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

use crate::any::at;

fn task(n: usize) -> TaskId {
    TaskId::from(Uuid::from_u128(n as u128 + 1))
}

fn gate(name: &str, after: usize, requires_approval: bool) -> Gate {
    Gate {
        id: name.to_owned(),
        name: name.to_owned(),
        after_task: task(after).to_string(),
        requires_approval,
        approvers: Vec::new(),
        timeout_hours: None,
        on_timeout: OnTimeout::Escalate,
        status: GateStatus::Pending,
        approved_by: None,
        approved_at: None,
    }
}

fn made(ask: PlanAsk) -> Plan {
    let (intent, id) = (IntentId::from(Uuid::from_u128(1)), PlanId::from(Uuid::from_u128(2)));
    create(ask, "ada", intent, id, at(0)).unwrap().plan
}

fn on_failure() -> impl Strategy<Value = OnFailure> {
    select(vec![OnFailure::PauseAndEscalate, OnFailure::Notify, OnFailure::Fail, OnFailure::Retry])
}

fn state() -> impl Strategy<Value = PlanState> {
    select(&PlanState::ALL[..])
}

fn ends() -> impl Strategy<Value = TaskStatus> {
    select(vec![TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Cancelled, TaskStatus::Skipped])
}

/// Ends the plan's tasks one by one in this order, until the plan has ended.
fn run(plan: Plan, ends: &[TaskStatus], order: &[usize]) -> Plan {
    let mut statuses: Vec<(TaskId, TaskStatus)> =
        (0..ends.len()).map(|n| (task(n), TaskStatus::Running)).collect();
    let mut plan = plan;
    for n in order {
        statuses[*n].1 = ends[*n];
        let mut course = PlanCourse::of(plan.clone());
        course.task_ended(task(*n), ends[*n], &statuses, at(1));
        assert_eq!(course.plan != plan, !course.told.is_empty(), "what changes is told");
        assert_eq!(
            course.plan.version - plan.version,
            i64::from(!course.told.is_empty()),
            "one course, one version"
        );
        assert_eq!(course.ends_tasks.is_some(), course.plan.state.is_terminal() && !plan.state.is_terminal());
        if plan.state.is_terminal() {
            assert_eq!(course.plan, plan, "what is over stays so");
        }
        plan = course.plan;
    }
    plan
}

proptest! {
    #[test]
    fn a_plan_comes_to_what_its_tasks_come_to(
        ends in vec(ends(), 1..6), on_failure in on_failure(), shuffle in any::<u64>(),
        state in select(vec![PlanState::Draft, PlanState::Active]),
    ) {
        let tasks = (0..ends.len()).map(task).collect();
        let ask = PlanAsk {
            tasks: Some(tasks), on_failure: Some(on_failure), state: Some(state), ..PlanAsk::default()
        };
        let plan = made(ask);
        let mut order: Vec<usize> = (0..ends.len()).collect();
        let once = run(plan.clone(), &ends, &order);
        order.sort_by_key(|n| (*n as u64 + 1).wrapping_mul(shuffle | 1));
        let again = run(plan, &ends, &order);
        let failed = ends.contains(&TaskStatus::Failed);
        assert_eq!(once.state, if failed { PlanState::Failed } else { PlanState::Completed });
        assert_eq!(again.state, once.state);
    }

    #[test]
    fn a_checkpoint_is_passed_by_a_decision_and_by_nothing_else(
        requires_approval: bool, approve: bool, manages: bool, drops: bool,
    ) {
        let gates = vec![gate("one", 0, requires_approval)];
        let ask = PlanAsk {
            tasks: Some(vec![task(0), task(1)]), gates: Some(gates), state: Some(PlanState::Active), ..PlanAsk::default()
        };
        let statuses = [(task(0), TaskStatus::Completed), (task(1), TaskStatus::Ready)];
        let mut course = PlanCourse::of(made(ask));
        course.task_ended(task(0), TaskStatus::Completed, &statuses, at(1));
        assert_eq!(course.plan.require_open_for_work(false).is_err(), requires_approval);
        // Neither by omitting it nor by writing that it was passed.
        let passed = Gate { status: GateStatus::Approved, ..gate("one", 0, false) };
        let anew = if drops { Vec::new() } else { vec![passed] };
        let mut course = PlanCourse::of(course.plan);
        course.change(PlanAsk { gates: Some(anew), ..PlanAsk::default() }, false, at(2)).unwrap();
        assert_eq!(course.plan.require_open_for_work(false).is_err(), requires_approval);
        let mut course = PlanCourse::of(course.plan);
        let decided = course.decide("one", approve, ("bob", manages), &statuses, at(3));
        let expected = match (requires_approval, manages) {
            (false, _) => Some(Code::NotFound),
            (true, false) => Some(Code::Forbidden),
            (true, true) => None,
        };
        assert_eq!(decided.as_ref().err().map(|refusal| refusal.code), expected);
        if decided.is_ok() {
            let state = if approve { PlanState::Active } else { PlanState::Paused };
            assert_eq!(course.plan.state, state);
            assert_eq!(course.plan.waits_at(), None);
            assert!(course.decide("one", approve, ("bob", true), &statuses, at(4)).is_err(), "decided twice");
        }
    }

    #[test]
    fn a_plan_that_is_over_never_changes_again(states in vec(state(), 0..8), strict: bool) {
        let mut plan = made(PlanAsk { tasks: Some(vec![task(0)]), ..PlanAsk::default() });
        for next in states {
            let mut course = PlanCourse::of(plan.clone());
            let changed = course.change(PlanAsk { state: Some(next), ..PlanAsk::default() }, strict, at(1));
            if plan.state.is_terminal() {
                assert_eq!(changed.unwrap_err().code, Code::InvalidTransition);
                continue;
            }
            if strict && plan.state == PlanState::Draft {
                let lawful = [PlanState::Draft, PlanState::Active, PlanState::Cancelled].contains(&next);
                assert_eq!(changed.is_ok(), lawful);
            }
            if changed.is_ok() {
                assert_eq!(course.plan.state, next);
                assert_eq!(course.told.len(), usize::from(next != plan.state));
                plan = course.plan;
            }
        }
    }
}

#[test]
fn a_plan_is_activated_once_and_resumed_after() {
    let mut plan = made(PlanAsk::default());
    let mut kinds = Vec::new();
    for state in [PlanState::Active, PlanState::Paused, PlanState::Active, PlanState::Cancelled] {
        let mut course = PlanCourse::of(plan);
        course.change(PlanAsk { state: Some(state), ..PlanAsk::default() }, true, at(1)).unwrap();
        kinds.extend(course.told.iter().map(|(kind, _)| *kind));
        plan = course.plan;
    }
    assert_eq!(kinds, [Kind::PlanActivated, Kind::PlanPaused, Kind::PlanResumed, Kind::PlanFailed]);
}
