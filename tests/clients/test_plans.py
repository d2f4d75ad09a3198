# Plans through the SDK (RFC-0012): creating, reading, listing and changing them, and the progress of their tasks.

from kit import INTENT, PLAN, TASK, recent, refused
from openintent import ConflictError, NotFoundError, OpenIntentError
from openintent.models import Checkpoint, PlanFailureAction, PlanState


def test_a_plan_is_what_was_asked_for(ada, intent):
    tasks = [ada.create_task(intent.id, name).id for name in ("b", "a")]
    gate = Checkpoint("review", "Review", tasks[0], approvers=["agent.bob"], timeout_hours=24)
    condition = {"id": "c", "task_id": tasks[1], "when": "always", "otherwise": "skip"}
    made = ada.create_plan(
        intent.id,
        tasks,
        checkpoints=[gate.to_dict()],
        conditions=[condition],
        on_failure="notify",
        on_complete="archive",
        metadata={"team": "research"},
    )
    assert (made.intent_id, made.version, made.state, made.tasks) == (intent.id, 1, PlanState.DRAFT, tasks)
    assert made.checkpoints == [gate]
    assert [c.to_dict() for c in made.conditions] == [condition]
    assert (made.on_failure, made.on_complete) == (PlanFailureAction.NOTIFY, "archive")
    assert made.metadata == {"team": "research"}
    assert recent(made.created_at) and recent(made.updated_at)
    assert ada.get_plan(made.id) == made
    assert ada.list_plans(intent.id) == [made]


def test_a_plan_of_nothing_is_made_too(ada, intent):
    made = ada.create_plan(intent.id)
    assert (made.tasks, made.checkpoints, made.on_failure) == ([], [], PlanFailureAction.PAUSE_AND_ESCALATE)
    task = ada.create_task(intent.id, "read", plan_id=made.id)
    assert task.plan_id == made.id
    assert ada.get_plan(made.id).tasks == [task.id]


def test_a_plan_is_what_its_tasks_come_to(ada, intent):
    tasks = [ada.create_task(intent.id, name) for name in ("a", "b")]
    gate = {"id": "review", "name": "Review", "after_task": tasks[0].id, "requires_approval": False}
    plan = ada.create_plan(intent.id, [task.id for task in tasks], checkpoints=[gate])
    active = ada.update_plan(plan.id, plan.version, state="active")
    assert (active.state, active.version) == (PlanState.ACTIVE, 2)
    for task in tasks:
        ada.update_task(task.id, task.version, "completed")
    done = ada.get_plan(plan.id)
    assert (done.state, done.checkpoints[0].status) == (PlanState.COMPLETED, "approved")
    assert recent(done.checkpoints[0].approved_at)


def test_a_plan_at_rest_lets_nobody_claim(ada, intent):
    task = ada.create_task(intent.id, "read")
    plan = ada.create_plan(intent.id, [task.id])
    paused = ada.update_plan(plan.id, plan.version, state="paused")
    assert paused.state == PlanState.PAUSED
    with refused(ConflictError, 409, "invalid_transition"):
        ada.update_task(task.id, task.version, "claimed")


def test_a_change_needs_the_version_that_is_current(ada, intent):
    plan = ada.create_plan(intent.id)
    ada.update_plan(plan.id, 1, state="active")
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.update_plan(plan.id, 1, state="paused")
    assert caught.value.current_version == 2


def test_what_is_no_plan_is_refused(ada, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.create_plan(INTENT)
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.create_plan(intent.id, [TASK])
    with refused(NotFoundError, 404, "not_found"):
        ada.get_plan(PLAN)
    with refused(NotFoundError, 404, "not_found"):
        ada.list_plans(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.update_plan(PLAN, 1, state="active")
