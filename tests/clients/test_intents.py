# Intents through the SDK: creating, finding, listing, patching under a version, changing status, and assigning.

import pytest
from kit import INTENT, recent, refused
from openintent import ConflictError, IntentStatus, NotFoundError, OpenIntentError, ValidationError


def test_an_intent_is_what_was_asked_for(ada):
    made = ada.create_intent(
        "Research", "Q1 figures", constraints={"rules": ["cite"]}, initial_state={"phase": "start"}
    )
    assert (made.title, made.description) == ("Research", "Q1 figures")
    assert made.constraints == {"rules": ["cite"]}
    assert made.state.to_dict() == {"phase": "start"}
    assert made.status == IntentStatus.DRAFT
    assert (made.version, made.created_by, made.parent_intent_id, made.depends_on) == (1, "agent.ada", None, [])
    assert recent(made.created_at) and recent(made.updated_at)
    assert ada.get_intent(made.id) == made


def test_an_intent_keeps_its_relations(connect):
    # Only the synchronous client can send them (OI-15.34).
    ada = connect("agent.ada", flavour="sync")
    parent, first = ada.create_intent("whole"), ada.create_intent("first")
    made = ada.create_intent("part", parent_intent_id=parent.id, depends_on=[first.id])
    found = ada.get_intent(made.id)
    assert (found.parent_intent_id, found.depends_on) == (parent.id, [first.id])
    assert found.has_parent and found.has_dependencies


def test_a_governance_policy_comes_back(ada):
    made = ada.create_intent("governed", "", governance_policy={"completion_mode": "require_approval"})
    assert ada.get_intent(made.id).effective_governance.completion_mode == "require_approval"


def test_an_intent_without_a_title_is_refused(ada):
    with refused(OpenIntentError, 422, "invalid_request") as caught:
        ada.create_intent("", "no title")
    assert caught.value.message == "Request failed with status 422"
    [fault] = caught.value.response["errors"]
    assert fault["loc"][-1] == "title"
    # Clients of the reference server read the same list from `detail` (OI-3.5.2).
    assert caught.value.response["detail"] == caught.value.response["errors"]


@pytest.mark.parametrize("unknown", [INTENT, "nonsense"])
def test_an_unknown_intent_is_not_found(ada, unknown):
    with refused(NotFoundError, 404, "not_found") as caught:
        ada.get_intent(unknown)
    assert caught.value.message == "Resource not found"


def test_intents_are_listed_newest_first(ada):
    made = [ada.create_intent(f"listed {n}", "") for n in range(3)]
    newest_first = [intent.id for intent in reversed(made)]
    listed = ada.list_intents(limit=3)
    assert [intent.id for intent in listed] == newest_first
    assert listed[0] == made[2]
    assert [intent.id for intent in ada.list_intents(limit=2, offset=1)] == newest_first[1:]


def test_intents_are_listed_by_status(ada):
    made = ada.create_intent("to be blocked", "")
    ada.set_status(made.id, made.version, IntentStatus.BLOCKED)
    blocked = ada.list_intents(status=IntentStatus.BLOCKED)
    assert made.id in [intent.id for intent in blocked]
    assert {intent.status for intent in blocked} == {IntentStatus.BLOCKED}
    assert made.id not in [intent.id for intent in ada.list_intents(status=IntentStatus.DRAFT)]


def test_a_list_without_room_is_refused(ada):
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.list_intents(limit=0)


def test_a_state_is_patched_under_its_version(ada):
    made = ada.create_intent("patched", "", initial_state={"kept": [1], "progress": {"percent": 1}})
    patched = ada.update_state(made.id, made.version, {"progress/percent": 50, "/a/b": {"c": None}, "text": "ä"})
    assert patched.version == 2
    expected = {"kept": [1], "progress": {"percent": 50}, "a": {"b": {"c": None}}, "text": "ä"}
    assert patched.state.to_dict() == expected
    assert patched.updated_at > made.updated_at
    assert ada.get_intent(made.id) == patched
    # An empty patch is valid too (OI-5.3.3).
    assert ada.update_state(made.id, 2, {}).version == 3


def test_a_stale_version_is_a_conflict(ada, bob):
    made = ada.create_intent("contested", "")
    bob.update_state(made.id, made.version, {"by": "bob"})
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.update_state(made.id, made.version, {"by": "ada"})
    assert caught.value.current_version == 2
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.set_status(made.id, made.version, IntentStatus.ACTIVE)
    assert caught.value.current_version == 2
    assert ada.get_intent(made.id).state.to_dict() == {"by": "bob"}
    # The error contains enough to try again.
    again = ada.update_state(made.id, caught.value.current_version, {"by": "ada"})
    assert (again.version, again.state.get("by")) == (3, "ada")


def test_a_version_that_is_none_is_a_validation_error(ada, intent):
    with refused(ValidationError, 400, "if_match_required") as caught:
        ada.update_state(intent.id, None, {"a": 1})
    assert "If-Match" in caught.value.message


@pytest.mark.parametrize("path", ["", "/", "text/inside"])
def test_a_patch_without_a_place_is_refused(ada, path):
    made = ada.create_intent("patched", "", initial_state={"text": "scalar"})
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.update_state(made.id, made.version, {"before": 1, path: 2})
    # All patches apply, or none.
    assert ada.get_intent(made.id) == made


def test_a_patch_of_an_unknown_intent_is_not_found(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.update_state(INTENT, 1, {"a": 1})
    with refused(NotFoundError, 404, "not_found"):
        ada.set_status(INTENT, 1, IntentStatus.ACTIVE)


@pytest.mark.parametrize("status", IntentStatus)
def test_a_draft_may_get_any_status(ada, status):
    made = ada.create_intent("moved", "")
    moved = ada.set_status(made.id, made.version, status, reason="because")
    assert (moved.status, moved.version) == (status, 2)
    assert ada.get_intent(made.id) == moved


def test_an_agent_is_assigned_and_taken_off(ada, intent):
    own = ada.assign_agent(intent.id)
    assert (own["agent_id"], own["delegated_by"]) == ("agent.ada", None)
    bobs = ada.assign_agent(intent.id, "agent.bob")
    assert bobs == {
        "id": bobs["id"],
        "intent_id": intent.id,
        "agent_id": "agent.bob",
        "role": "worker",
        "assigned_at": bobs["assigned_at"],
        # She is assigned herself, so she hands it on.
        "delegated_by": "agent.ada",
    }
    assert ada.unassign_agent(intent.id, "agent.bob") is None
    with refused(NotFoundError, 404, "not_found"):
        ada.unassign_agent(intent.id, "agent.bob")
    assert ada.unassign_agent(intent.id) is None


def test_nobody_is_assigned_to_an_unknown_intent(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.assign_agent(INTENT)
