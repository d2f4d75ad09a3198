# Intents that wait for a person (RFC-0025): the SDK's own agents ask, and people answer in their inbox and at the
# intent.
#
# request_input() passes arguments to set_status in the wrong order, as other parts of the SDK do (OI-16.2), and so
# fails before it asks anything, on any server. With that one call corrected (mended), the rest runs unchanged.

import asyncio
import threading
import uuid

import httpx
import pytest
from conftest import AGENTS, SERVICE, let_in
from kit import eventually
from openintent import Agent, BaseAgent, IntentStatus
from openintent.exceptions import InputCancelledError, InputTimeoutError
from openintent.models import HumanRetryPolicy, SuspensionChoice


@pytest.fixture
def flavour():
    """An agent uses the asynchronous client by itself."""
    return "sync"


@pytest.fixture
def person(url, operator):
    """A person with their own key: the name, and a client."""
    name = f"human.{uuid.uuid4().hex[:12]}"
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": let_in(url, operator, name)}) as client:
        yield name, client


def mended(client):
    """Makes a client's set_status accept its two last arguments in either order."""
    given = client.set_status

    def set_status(intent_id, version, status):
        if isinstance(version, IntentStatus):
            version, status = status, version
        return given(intent_id, version, status)

    client.set_status = set_status


class Asked:
    """A question that an agent of the SDK asks in a separate thread."""

    def __init__(self, url: str, intent: str, *args, **kwargs):
        # A separate agent for each: after a person refuses a question of an agent, that agent may not ask the person
        # anything else.
        self.agent = kwargs.pop("agent", "agent.ada")
        self.answer = self.error = None

        @Agent(self.agent)
        class Asker:
            request_input = BaseAgent.request_input

        asker = Asker(url, AGENTS.get(self.agent, SERVICE))
        if kwargs.pop("mend", True):
            mended(asker.async_client)

        async def ask():
            try:
                self.answer = await asker.request_input(intent, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the test inspects it
                self.error = error
            await asker.async_client.close()

        self.thread = threading.Thread(target=lambda: asyncio.run(ask()))
        self.thread.start()

    def done(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self


def inbox(person):
    """Waits for the person's only pending question, and returns it."""

    def look():
        return person.get("/moments/inbox").raise_for_status().json()["moments"]

    [moment] = eventually(look, "a question in the inbox")
    return moment


def resolve(person, moment, resolution):
    body = {"envelope_digest": moment["envelope_digest"], "resolution": resolution}
    return person.post(f"/moments/{moment['id']}/resolution", json=body).raise_for_status()


def test_without_the_mending_the_sdk_asks_nothing_on_any_server(url, ada, intent):
    error = Asked(url, intent.id, "Go on?", response_type="confirm", mend=False).done().error
    assert isinstance(error, AttributeError) and "has no attribute 'value'" in str(error)
    assert ada.get_intent(intent.id).version == intent.version


def test_an_agent_asks_and_gets_what_the_person_chose_in_the_inbox(url, ada, intent, person):
    name, human = person
    asked = Asked(
        url,
        intent.id,
        "Refund order 7?",
        choices=[
            SuspensionChoice("approve", "Approve", "All of it", style="primary"),
            SuspensionChoice("deny", "Deny"),
        ],
        context={"order": 7},
        channel_hint=name,
        timeout_seconds=600,
        confidence=0.5,
    )
    moment = inbox(human)
    question = moment["binding_moment"]["question"]
    assert (question["stem"], [one["label"] for one in question["options"]]) == ("Refund order 7?", ["Approve", "Deny"])
    assert ada.get_intent(intent.id).status == IntentStatus.SUSPENDED_AWAITING_INPUT
    resolve(human, moment, {"kind": "option", "option_idx": 1})
    assert asked.done().answer == "deny"
    after = ada.get_intent(intent.id)
    assert after.status == IntentStatus.ACTIVE
    assert after.state.to_dict()["_suspension"]["responded_by"] == name
    # The whole log can be read by the SDK.
    types = [event.event_type.value for event in ada.get_events(intent.id)]
    assert "intent.resumed" in types and "intent.suspended" in types


def test_an_agent_asks_and_gets_what_was_answered_at_the_intent(url, ada, intent, person):
    name, human = person
    asked = Asked(url, intent.id, "Where to?", response_type="text", context={"principal_id": name})
    inbox(human)
    suspension = ada.get_intent(intent.id).state.to_dict()["_suspension"]
    path = f"/intents/{intent.id}/suspend/respond"
    answer = {"suspension_id": suspension["id"], "value": "To Bern, by train."}
    # No other principal answers in the person's place.
    service = httpx.post(f"{url}/api/v1{path}", headers={"X-API-Key": SERVICE}, json=answer)
    assert (service.status_code, service.json()["code"]) == (403, "not_the_principal")
    done = human.post(path, json=answer).raise_for_status().json()
    assert (done["resolution"], done["value"], done["responded_by"]) == ("responded", "To Bern, by train.", name)
    assert asked.done().answer == "To Bern, by train."
    assert human.post(path, json=answer).json() == done


def test_what_is_asked_of_nobody_the_configured_person_answers_and_no_service(url, ada, operator, intent, developer):
    asked = Asked(url, intent.id, "Go on?", response_type="confirm")
    suspension = eventually(lambda: ada.get_intent(intent.id).state.to_dict().get("_suspension"), "a question")
    path = f"/intents/{intent.id}/suspend/respond"
    answer = {"suspension_id": suspension["id"], "value": "yes"}
    # Neither a key that may act as anybody nor the operator's key answers, under any name, and least of all the asking
    # agent's.
    names = [{}] + [{"responded_by": name} for name in ("agent.bob", "human.dev", "alice@example.com")]
    for key in (SERVICE, operator, AGENTS["agent.bob"], AGENTS["agent.ada"]):
        for name in names:
            refused = httpx.post(f"{url}/api/v1{path}", headers={"X-API-Key": key}, json=answer | name)
            assert (refused.status_code, refused.json()["code"]) == (403, "not_the_principal"), refused.text
    # Another agent cannot withdraw it either.
    version = {"If-Match": str(ada.get_intent(intent.id).version), "X-API-Key": AGENTS["agent.bob"]}
    refused = httpx.post(f"{url}/api/v1/intents/{intent.id}/status", headers=version, json={"status": "active"})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_the_principal")
    bad = developer.post(path, json=answer | {"value": "maybe"})
    assert bad.status_code == 422 and "yes" in bad.json()["message"]
    done = developer.post(path, json=answer).raise_for_status().json()
    assert (done["responded_by"], asked.done().answer) == ("human.dev", "yes")


def test_a_key_that_the_operator_makes_for_a_person_decides_nothing(url, ada, operator, intent):
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": operator}) as admin:
        admin.post("/principals", json={"id": "human.bob", "kind": "human"}).raise_for_status()
        made = admin.post("/principals/human.bob/keys", json={}).raise_for_status().json()
    asked = Asked(url, intent.id, "Go on?", response_type="confirm", channel_hint="human.bob")
    suspension = eventually(lambda: ada.get_intent(intent.id).state.to_dict().get("_suspension"), "a question")
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": made["key"]}) as forged:
        moment = inbox(forged)
        body = {"envelope_digest": moment["envelope_digest"], "resolution": {"kind": "option", "option_idx": 0}}
        answer = {"suspension_id": suspension["id"], "value": "yes"}
        for refused in (
            forged.post(f"/moments/{moment['id']}/resolution", json=body),
            forged.post(f"/intents/{intent.id}/suspend/respond", json=answer),
        ):
            assert (refused.status_code, refused.json()["code"]) == (403, "not_the_principal"), refused.text
    # After his login, a key that he makes himself works.
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": let_in(url, operator, "human.bob")}) as bob:
        done = resolve(bob, moment, body["resolution"]).json()["resolution"]
    assert done["authority"] == {"basis": "one_time_link", "let_in_by": "service.dev"}
    assert asked.done().answer == "yes"


def test_a_refused_question_is_called_off_now_and_when_it_comes_again(url, intent, ada, person):
    name, human = person
    asked = Asked(url, intent.id, "Which colour?", response_type="text", channel_hint=name, agent="agent.eve")
    resolve(human, inbox(human), {"kind": "dialogue", "objection": "Colours are not the question."})
    assert isinstance(asked.done().error, InputCancelledError)
    assert ada.get_intent(intent.id).status == IntentStatus.ACTIVE
    again = Asked(url, intent.id, "Which colour?", response_type="text", channel_hint=name, agent="agent.eve")
    assert isinstance(again.done().error, InputCancelledError)


@pytest.mark.parametrize("policy", ["fail", "complete_with_fallback"])
def test_nobody_answers_in_time(url, ada, intent, policy):
    retry = HumanRetryPolicy(max_attempts=2, interval_seconds=1, final_fallback_policy=policy)
    asked = Asked(url, intent.id, "Anybody?", response_type="text", retry_policy=retry, fallback_value="nobody")
    done = asked.done()
    if policy == "fail":
        assert isinstance(done.error, InputTimeoutError)
    else:
        assert done.answer == "nobody"
    record = ada.get_intent(intent.id).state.to_dict()["_suspension"]
    assert record["resolution"] == "expired"
