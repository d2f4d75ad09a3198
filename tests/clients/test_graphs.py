# Graphs of intents through the SDK (RFC-0002). Only the synchronous client has them.

import pytest
from kit import INTENT, refused
from openintent import ConflictError, EventType, IntentStatus, NotFoundError, OpenIntentError, ValidationError


@pytest.fixture
def flavour():
    """Only the synchronous client has graphs."""
    return "sync"


@pytest.fixture
def whole(ada):
    return ada.create_intent("whole", "")


def ids(intents) -> list[str]:
    return [intent.id for intent in intents]


def status(sdk, intent, to: IntentStatus):
    return sdk.set_status(intent.id, sdk.get_intent(intent.id).version, to)


def test_parts_are_made_and_found(ada, whole):
    first = ada.create_child_intent(whole.id, "first", "what is first", {"rules": ["cite"]}, {"n": 1})
    assert (first.title, first.description, first.constraints) == ("first", "what is first", {"rules": ["cite"]})
    assert (first.parent_intent_id, first.depends_on, first.version) == (whole.id, [], 1)
    assert first.state.to_dict() == {"n": 1}
    second = ada.create_child_intent(whole.id, "second", depends_on=[first.id])
    assert (second.depends_on, second.created_by) == ([first.id], "agent.ada")
    leaf = ada.create_child_intent(first.id, "leaf")
    assert ada.get_children(whole.id) == [first, second]
    assert ids(ada.get_descendants(whole.id)) == [first.id, second.id, leaf.id]
    assert ids(ada.get_ancestors(leaf.id)) == [first.id, whole.id]
    assert ada.get_ancestors(whole.id) == ada.get_children(leaf.id) == ada.get_descendants(leaf.id) == []


def test_an_unknown_intent_has_no_graph(ada):
    looks = ["get_children", "get_descendants", "get_ancestors", "get_dependencies", "get_dependents"]
    for look in [*looks, "get_ready_intents", "get_blocked_intents", "get_intent_graph"]:
        with refused(NotFoundError, 404, "not_found"):
            getattr(ada, look)(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.create_child_intent(INTENT, "part")


def test_a_part_of_nothing_or_for_nothing_is_refused(ada, whole):
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_child_intent(whole.id, "")
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.create_child_intent(whole.id, "part", depends_on=[INTENT])


def test_dependencies_come_and_go(ada, bob):
    first, second = ada.create_intent("first", ""), ada.create_intent("second", "")
    added = ada.add_dependency(second.id, first.id, second.version)
    assert (added.depends_on, added.version) == ([first.id], 2)
    assert ada.get_dependencies(second.id) == [first]
    assert bob.get_dependents(first.id) == [added]
    with refused(ConflictError, 409, "version_conflict") as caught:
        bob.remove_dependency(second.id, first.id, 1)
    assert caught.value.current_version == 2
    with refused(ConflictError, 409, "version_conflict"):
        bob.add_dependency(second.id, first.id, 1)
    removed = bob.remove_dependency(second.id, first.id, 2)
    assert (removed.depends_on, removed.version) == ([], 3)
    assert ada.get_dependencies(second.id) == ada.get_dependents(first.id) == []
    with refused(NotFoundError, 404, "not_found"):
        ada.remove_dependency(second.id, first.id, 3)
    with refused(NotFoundError, 404, "not_found"):
        ada.add_dependency(second.id, INTENT, 3)
    logged = [event.event_type for event in ada.get_events(second.id)]
    assert logged == [EventType.DEPENDENCY_REMOVED, EventType.DEPENDENCY_ADDED, EventType.INTENT_CREATED]


def test_a_circle_is_a_validation_error(ada):
    first, second = ada.create_intent("first", ""), ada.create_intent("second", "")
    third = ada.create_intent("third", "", depends_on=[second.id])
    ada.add_dependency(second.id, first.id, 1)
    for on in (first, second, third):
        with refused(ValidationError, 400, "dependency_circle") as caught:
            ada.add_dependency(first.id, on.id, 1)
        assert "wait for itself" in caught.value.message
    with refused(ValidationError, 400, "if_match_required"):
        ada.add_dependency(first.id, third.id, None)


def test_parts_become_ready_when_what_they_wait_for_is_done(ada, whole):
    first = ada.create_child_intent(whole.id, "first")
    second = ada.create_child_intent(whole.id, "second", depends_on=[first.id])
    third = ada.create_child_intent(whole.id, "third", depends_on=[second.id])
    assert ada.get_ready_intents(whole.id) == [first]
    assert ada.get_blocked_intents(whole.id) == [second, third]
    status(ada, first, IntentStatus.COMPLETED)
    assert ids(ada.get_ready_intents(whole.id)) == [second.id]
    assert ids(ada.get_blocked_intents(whole.id)) == [third.id]
    status(ada, second, IntentStatus.ABANDONED)
    assert ada.get_ready_intents(whole.id) == []
    assert ids(ada.get_blocked_intents(whole.id)) == [third.id]


def test_a_graph_is_shown(ada, whole):
    first = ada.create_child_intent(whole.id, "first")
    second = ada.create_child_intent(whole.id, "second", depends_on=[first.id])
    status(ada, first, IntentStatus.COMPLETED)
    graph = ada.get_intent_graph(whole.id)
    assert graph["root_id"] == whole.id
    assert [node["id"] for node in graph["nodes"]] == [whole.id, first.id, second.id]
    assert {node["status"] for node in graph["nodes"]} == {"draft", "completed"}
    lines = [(edge["from"], edge["to"], edge["type"]) for edge in graph["edges"]]
    expected = [(whole.id, part.id, "parent") for part in (first, second)] + [(first.id, second.id, "dependency")]
    assert lines == expected
    assert graph["aggregate_status"] == {
        "total": 3,
        "by_status": {"completed": 1, "draft": 2},
        "completion_percentage": 33,
    }
