//! Tasks (RFC-0012): after any actions and any time, at most one agent has claimed the task, an ended task stays
//! ended, and dependency cycles are refused.

use std::collections::{BTreeMap, HashSet};

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, TaskId};
use entente_domain::limits::{ATTEMPTS, DURATION_SECONDS, PAUSE_SECONDS, TITLE_BYTES};
use entente_domain::log::kinds::Kind;
use entente_domain::openintent::agents::{Agent, Registration, register};
use entente_domain::openintent::tasks::change::{Assignee, Change, Verb};
use entente_domain::openintent::tasks::course::Course;
use entente_domain::openintent::tasks::graph::{Wait, check_no_circle, distinct};
use entente_domain::openintent::tasks::may::By;
use entente_domain::openintent::tasks::{Task, TaskAsk, TaskStatus, create, pause_seconds};
use entente_domain::refusal::{Code, Refusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::any::at;

const SECOND: i64 = 1_000_000;
const AGENTS: [&str; 3] = ["ada", "bob", "eve"];

fn second(n: i64) -> Timestamp {
    at(n * SECOND)
}

fn id(n: u128) -> TaskId {
    TaskId::from(Uuid::from_u128(n))
}

fn made(ask: TaskAsk) -> Result<Task, Code> {
    let ask = TaskAsk { name: if ask.name.is_empty() { "a task".to_owned() } else { ask.name }, ..ask };
    create(ask, "ada", IntentId::from(Uuid::from_u128(1)), id(1), second(0)).map_err(|refusal| refusal.code)
}

fn by(agent: &'static str, now: Timestamp) -> By<'static> {
    By {
        agent,
        claimer: agent,
        record: None,
        manages: false,
        token: None,
        jumps: false,
        strict: false,
        plan: None,
        now,
    }
}

fn code(result: Result<(), Refusal>) -> Option<Code> {
    result.err().map(|refusal| refusal.code)
}

fn verb() -> impl Strategy<Value = Verb> {
    let to = select(&AGENTS[..]).prop_map(str::to_owned);
    prop_oneof![
        4 => Just(Verb::Claim),
        2 => Just(Verb::Start),
        1 => Just(Verb::Progress(Map::new())),
        1 => Just(Verb::Complete { output: None, artifacts: None }),
        3 => Just(Verb::Fail { error: None, for_good: false }),
        1 => Just(Verb::Fail { error: None, for_good: true }),
        2 => Just(Verb::Block(Some("why".to_owned()))),
        2 => Just(Verb::Unblock),
        2 => Just(Verb::HandBack),
        1 => to.prop_map(|to| Verb::Delegate { to, reason: None }),
        1 => Just(Verb::Escalate { to: None, reason: None }),
        1 => Just(Verb::Cancel(None)),
        1 => Just(Verb::Skip(None)),
    ]
}

/// One step in a task's life.
#[derive(Debug, Clone)]
enum Step {
    Act(Verb, &'static str),
    Patch(Option<TaskStatus>, &'static str, Option<&'static str>),
    Wait(i64),
    Left,
}

fn step() -> impl Strategy<Value = Step> {
    let status = proptest::option::of(select(&TaskStatus::ALL[..]));
    let agent = || select(&AGENTS[..]);
    prop_oneof![
        6 => (verb(), agent()).prop_map(|(verb, agent)| Step::Act(verb, agent)),
        3 => (status, agent(), proptest::option::of(agent())).prop_map(|(s, a, to)| Step::Patch(s, a, to)),
        2 => (1_i64..40).prop_map(Step::Wait),
        1 => Just(Step::Left),
    ]
}

/// Applies a step; returns the task and its events.
fn take(task: Task, step: &Step, now: &mut i64) -> (Task, Vec<(Kind, Value)>) {
    if let Step::Wait(seconds) = step {
        *now += seconds;
    }
    let mut course = Course::begin(task, second(*now));
    let before = course.clone();
    let wait = Wait::default();
    let done = match step {
        Step::Act(verb, agent) => course.act(verb.clone(), &wait, &by(agent, second(*now))),
        Step::Patch(status, agent, to) => {
            let assigned_agent = to.map(|to| Assignee::Agent(to.to_owned()));
            let change = Change { status: *status, assigned_agent, ..Change::default() };
            let claimer = to.unwrap_or(agent);
            course.change(change, &wait, &By { claimer, jumps: true, ..by(agent, second(*now)) })
        }
        Step::Left if !course.task.status.is_terminal() && course.task.assigned_agent.is_some() => {
            course.agent_left("agent_left", second(*now));
            Ok(())
        }
        Step::Wait(_) | Step::Left => Ok(()),
    };
    // A refused action changes nothing.
    let course = if done.is_ok() { course } else { before };
    (course.task, course.told)
}

/// Invariants of every task at every time.
fn check(task: &Task) {
    let held = task.is_held();
    let has = matches!(task.status, TaskStatus::Claimed | TaskStatus::Running);
    assert!(held || !has, "{:?} and nobody has it", task.status);
    assert!(!held || task.assigned_agent.is_some());
    assert!(!held || has || task.status == TaskStatus::Blocked, "{:?} and somebody has it", task.status);
    let stands = task.status == TaskStatus::Blocked || task.status.is_terminal();
    assert!(task.blocked_reason.is_none() || stands, "{:?} and blocked by something", task.status);
    assert_eq!(task.claim_token().is_some(), held);
    assert!((1..=task.max_attempts).contains(&task.attempt));
    assert_eq!(task.completed_at.is_some(), task.status.is_terminal());
    assert_eq!(task.status == TaskStatus::Running, task.started_at.is_some() && has);
    let timed = has || task.status == TaskStatus::Pending;
    assert!(task.due_at.is_none() || timed, "time changes what it should not: {:?}", task.status);
    assert!(!has || task.due_at.is_some() == task.timeout_seconds.is_some());
    // It has no dependencies here, so a pending task must have a due time, or it would be lost.
    assert!(task.status != TaskStatus::Pending || task.due_at.is_some(), "pending for ever");
}

proptest! {
    #[test]
    fn whatever_is_done_one_agent_has_it_and_what_is_over_stays_over(
        steps in vec(step(), 0..40), timeout_seconds in proptest::option::of(1_u32..60), max_attempts in 1_u32..4,
        retry in select(vec![None, Some("fixed:10"), Some("exponential:5"), Some("immediate")]),
    ) {
        let ask = TaskAsk {
            timeout_seconds, max_attempts: Some(max_attempts), retry_policy: retry.map(str::to_owned),
            ..TaskAsk::default()
        };
        let mut course = Course::made(made(ask).unwrap(), &Wait::default());
        assert_eq!(course.task.status, TaskStatus::Ready);
        let (mut now, mut over) = (0, None);
        for step in &steps {
            let (task, told) = take(course.task.clone(), step, &mut now);
            check(&task);
            if let Some(end) = &over {
                assert_eq!(&task, end, "{step:?} changed what was over");
            }
            assert!(task.claims >= course.task.claims && task.version >= course.task.version);
            let claimed = told.iter().filter(|(kind, _)| *kind == Kind::TaskClaimed).count();
            assert_eq!(task.claims - course.task.claims, i64::try_from(claimed).unwrap(), "each claim has a number");
            let (status, version) = (course.task.status, course.task.version);
            assert!(task.status == status || task.version > version || task.status == TaskStatus::Ready);
            assert!(task == course.task || !told.is_empty(), "{step:?} changed something and told nothing");
            if task.status.is_terminal() && over.is_none() {
                let kinds = [Kind::TaskCompleted, Kind::TaskFailed, Kind::TaskCancelled, Kind::TaskSkipped];
                assert_eq!(told.iter().filter(|(kind, _)| kinds.contains(kind)).count(), 1, "it ends once");
                over = Some(task.clone());
            }
            course = Course::of(task);
        }
    }

    #[test]
    fn only_whoever_has_it_and_the_managers_go_on_with_it(verb in verb(), jumps: bool) {
        let mut course = Course::made(made(TaskAsk::default()).unwrap(), &Wait::default());
        course.task.created_by = "kim".to_owned();
        course.act(Verb::Claim, &Wait::default(), &by("ada", second(0))).unwrap();
        let other = By { jumps, ..by("bob", second(1)) };
        let refused = code(course.clone().act(verb.clone(), &Wait::default(), &other));
        let expected = match verb {
            Verb::Claim => Code::ClaimConflict,
            // The task is not blocked, which is checked first.
            Verb::Unblock => Code::InvalidTransition,
            _ => Code::Forbidden,
        };
        assert_eq!(refused, Some(expected));
        // The claiming agent with the token of an older claim no longer has the task.
        if !matches!(verb, Verb::Claim | Verb::Unblock) {
            let late = By { token: Some(0), ..by("ada", second(1)) };
            assert_eq!(code(course.clone().act(verb.clone(), &Wait::default(), &late)), Some(Code::ClaimConflict));
            let token = By { token: Some(1), ..by("ada", second(1)) };
            assert_eq!(code(course.clone().act(verb.clone(), &Wait::default(), &token)), None);
        }
        let manager = By { manages: true, ..by("bob", second(1)) };
        let done = code(course.act(verb.clone(), &Wait::default(), &manager));
        assert_eq!(done.is_none(), !matches!(verb, Verb::Claim | Verb::Unblock), "{done:?}");
    }

    #[test]
    fn time_is_true_whenever_it_is_looked_at(
        looks in vec(0_i64..300, 1..6), timeout in 1_u32..60, attempts in 1_u32..4, pause in 1_u32..30,
    ) {
        let ask = TaskAsk {
            timeout_seconds: Some(timeout), max_attempts: Some(attempts), retry_policy: Some(format!("fixed:{pause}")),
            ..TaskAsk::default()
        };
        let mut course = Course::made(made(ask).unwrap(), &Wait::default());
        course.act(Verb::Claim, &Wait::default(), &by("ada", second(0))).unwrap();
        let claimed = course.task;
        let mut looks = looks;
        looks.sort_unstable();
        // The result is the same, however often due changes were stored in between.
        let mut stored = claimed.clone();
        for look in looks {
            let now = second(look);
            let seen = claimed.clone().at(now);
            stored = stored.at(now);
            assert_eq!(stored, seen);
            let late = look >= i64::from(timeout);
            let expected = match (late, attempts) {
                (false, _) => TaskStatus::Claimed,
                (true, 1) => TaskStatus::Failed,
                (true, _) if look >= i64::from(timeout + pause) => TaskStatus::Ready,
                (true, _) => TaskStatus::Pending,
            };
            assert_eq!(seen.status, expected);
        }
    }

    #[test]
    fn a_task_waits_for_what_is_open_and_is_blocked_by_what_is_lost(
        statuses in vec(select(&TaskStatus::ALL[..]), 0..6),
    ) {
        let dependencies: Vec<_> = statuses.iter().enumerate().map(|(n, s)| (id(n as u128 + 10), *s)).collect();
        let wait = Wait::of(&dependencies);
        let lost = statuses.iter().any(|s| s.is_terminal() && *s != TaskStatus::Completed);
        let done = statuses.iter().all(|s| *s == TaskStatus::Completed);
        assert_eq!(wait.is_over(), done);
        let course = Course::made(made(TaskAsk::default()).unwrap(), &wait);
        let expected = if lost {
            TaskStatus::Blocked
        } else if done {
            TaskStatus::Ready
        } else {
            TaskStatus::Pending
        };
        assert_eq!((course.task.status, course.task.version), (expected, 1));
        assert_eq!(course.task.blocked_reason.is_some(), lost);
        let claim = code(course.clone().act(Verb::Claim, &wait, &by("ada", second(0))));
        assert_eq!(claim, (!done).then_some(Code::InvalidTransition));
    }

    #[test]
    fn a_graph_that_grows_edge_by_edge_never_has_a_circle(edges in vec((0_u128..8, 0_u128..8), 0..40)) {
        let mut graph: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        for (from, to) in edges {
            let (from, to) = (id(from), id(to));
            let mut depends_on = graph.get(&from).cloned().unwrap_or_default();
            depends_on.push(to);
            let circle = reaches(&graph, to, from);
            let refused = check_no_circle(from, &depends_on, &graph).err().map(|refusal| refusal.code);
            assert_eq!(refused, circle.then_some(Code::Unprocessable));
            if refused.is_none() {
                graph.insert(from, distinct(depends_on));
            }
        }
        // Reference check for cycles: removes tasks without dependencies until none are left.
        let mut left: HashSet<TaskId> = (0..8).map(id).collect();
        while let Some(free) = left.iter().copied().find(|task| {
            graph.get(task).is_none_or(|on| on.iter().all(|other| !left.contains(other)))
        }) {
            left.remove(&free);
        }
        assert!(left.is_empty(), "{left:?} wait for each other");
    }

    #[test]
    fn members_out_of_their_range_are_refused(
        attempts in prop_oneof![Just(0), Just(ATTEMPTS), Just(ATTEMPTS + 1), 1_u32..200],
        timeout in prop_oneof![Just(0), Just(DURATION_SECONDS), Just(DURATION_SECONDS + 1)],
        name in prop_oneof![Just(0), Just(1), Just(TITLE_BYTES), Just(TITLE_BYTES + 1)],
        pause in prop_oneof![Just(0), Just(1), Just(PAUSE_SECONDS), Just(PAUSE_SECONDS + 1)],
    ) {
        let ask = TaskAsk {
            name: "x".repeat(name), max_attempts: Some(attempts), timeout_seconds: Some(timeout),
            retry_policy: Some(format!("fixed:{pause}")), ..TaskAsk::default()
        };
        let lawful = (1..=ATTEMPTS).contains(&attempts) && (1..=DURATION_SECONDS).contains(&timeout)
            && (1..=PAUSE_SECONDS).contains(&pause) && (1..=TITLE_BYTES).contains(&name);
        let made = create(ask, "ada", IntentId::from(Uuid::nil()), id(1), second(0));
        assert_eq!(made.is_ok(), lawful);
    }

    #[test]
    fn a_pause_is_as_long_as_its_policy_says(seconds in 1_u32..PAUSE_SECONDS, attempt in 1_u32..ATTEMPTS) {
        assert_eq!(pause_seconds(Some(&format!("fixed:{seconds}")), attempt), seconds);
        let doubled = u64::from(seconds) << (attempt - 1).min(40);
        let expected = doubled.min(u64::from(PAUSE_SECONDS));
        assert_eq!(u64::from(pause_seconds(Some(&format!("exponential:{seconds}")), attempt)), expected);
        for own in [None, Some("whenever"), Some("linear:5")] {
            assert_eq!(pause_seconds(own, attempt), 0);
        }
    }
}

/// Whether `to` can be reached from `from`; reference implementation.
fn reaches(graph: &BTreeMap<TaskId, Vec<TaskId>>, from: TaskId, to: TaskId) -> bool {
    from == to || graph.get(&from).is_some_and(|on| on.iter().any(|next| reaches(graph, *next, to)))
}

#[test]
fn only_the_able_claim() {
    let able = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let record = |words: &[&str]| -> Agent {
        let ask =
            Registration { agent_id: "ada".to_owned(), capabilities: able(words), ..Registration::default() };
        register(None, ask, "ada", second(0)).unwrap()
    };
    let need = TaskAsk { capabilities_required: able(&["ocr", "prose"]), ..TaskAsk::default() };
    let course = Course::made(made(need).unwrap(), &Wait::default());
    let claim = |record: Option<&Agent>, strict: bool| {
        code(course.clone().act(
            Verb::Claim,
            &Wait::default(),
            &By { record, strict, ..by("ada", second(0)) },
        ))
    };
    assert_eq!(claim(Some(&record(&["ocr"])), false), Some(Code::Forbidden));
    assert_eq!(claim(Some(&record(&["prose", "ocr", "maths"])), true), None);
    assert_eq!(claim(None, false), None);
    assert_eq!(claim(None, true), Some(Code::Forbidden));
}
