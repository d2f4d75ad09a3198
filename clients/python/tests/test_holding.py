# What is held while a block runs, with our own Python client: leases, claims of tasks, reservations; and what a person decides.

import threading
import time
import uuid

import entente._async.leases
import entente._sync.leases
import httpx
import pytest
from entente import (
    ApiError,
    ClaimError,
    ConflictError,
    DecisionTimeoutError,
    LeaseError,
    SigningKey,
    answer,
    operations,
)
from entente.signing import canonical
from people import choose, let_in

QUESTION = {
    "synopsis": "Publish the summary today.",
    "findings": ["The dataset has no gaps."],
    "recommendations": ["Publish it."],
    "offer": "Ask for detail.",
    "question": {
        "stem": "When should the summary go out?",
        "options": [
            {"label": "Publish at noon", "reasoning": "Most readers look then."},
            {"label": "Publish at six", "reasoning": "The last check is through by then."},
        ],
        "recommended_idx": 0,
    },
    "meta": {"decision_class": "publication"},
}


def test_writes_under_a_lease_end_with_it(ada, intent):
    with ada.lease(intent.id, "report") as held:
        changed = held.client.update_state(intent.id, {"report": 1}, version=intent.version)
        under = held.client
        assert held.token == held.lease.fencing_token
    with pytest.raises(LeaseError) as ended:
        under.update_state(intent.id, {"report": 2}, version=changed.version)
    assert ended.value.code == "lease_ended"
    assert "Stop" in ended.value.what_to_do
    assert ada.get_intent(intent.id).state == {"report": 1}
    ada.update_state(intent.id, {"report": 3}, version=changed.version)


def test_a_lease_has_a_queue(ada, bob, intent):
    order = []

    def waiting():
        with bob.lease(intent.id, "report", wait=20):
            order.append("bob")

    with ada.lease(intent.id, "report"):
        with pytest.raises(LeaseError) as held:
            bob.lease(intent.id, "report").__enter__()
        assert held.value.body["existing_lease"]["agent_id"] == "agent.ada"
        thread = threading.Thread(target=waiting)
        thread.start()
        time.sleep(0.3)
        order.append("ada")
    thread.join(20)
    assert order == ["ada", "bob"]


def test_two_programs_of_one_agent_hold_a_lease_in_turn(ada, intent, monkeypatch):
    asked = []
    acquire = operations.acquire_lease

    def counted(*arguments, **options):
        asked.append(time.monotonic())
        return acquire(*arguments, **options)

    for leases in (entente._async.leases, entente._sync.leases):
        monkeypatch.setattr(leases.api, "acquire_lease", counted)
    with ada.lease(intent.id, "report"), pytest.raises(LeaseError):
        ada.lease(intent.id, "report", wait=3).__enter__()
    assert 2 <= len(asked) <= 5, asked


def test_a_lease_is_renewed_while_its_block_runs(ada, intent):
    with ada.lease(intent.id, "report", duration=6) as held:
        first = held.lease.expires_at
        end = time.monotonic() + 30
        while held.lease.expires_at == first:
            assert held.lost is None and time.monotonic() < end
            time.sleep(0.05)
        held.client.update_state(intent.id, {"report": 1}, version=intent.version)


def test_a_task_is_claimed_by_one(ada, bob, intent):
    task = ada.call(operations.create_intent_task(intent.id, {"name": "collect"}))
    with ada.claim_task(task.id) as claim:
        with pytest.raises(ConflictError):
            bob.claim_task(task.id).__enter__()
        claim.start()
        claim.progress(rows=1)
        claim.client.log_event(intent.id, "comment", {"text": "collecting"})
        assert claim.complete({"rows": 3}).output == {"rows": 3}
    with pytest.raises(ClaimError):
        claim.client.log_event(intent.id, "comment", {"text": "too late"})


def test_a_task_whose_block_fails_fails(ada, intent):
    task = ada.call(operations.create_intent_task(intent.id, {"name": "collect", "max_attempts": 1}))
    with pytest.raises(ValueError, match="no rows"):
        with ada.claim_task(task.id) as claim:
            claim.start()
            raise ValueError("no rows")
    found = ada.call(operations.get_task(task.id))
    assert (found.status, found.error) == ("failed", "ValueError: no rows")


def test_a_task_that_is_left_is_handed_back(ada, intent):
    task = ada.call(operations.create_intent_task(intent.id, {"name": "collect"}))
    with ada.claim_task(task.id):
        pass
    assert ada.call(operations.get_task(task.id)).status in ("pending", "ready")


def test_a_call_is_reserved_settled_and_refused_beyond_its_budget(server, ada, join, proxy):
    unit = f"u{uuid.uuid4().hex[:8]}"
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}) as admin:
        body = {"scope": "principal:agent.ada", "unit": unit, "limit": "1.00"}
        budget = admin.post("/budgets", json=body).raise_for_status().json()["id"]

        def usage():
            found = admin.get(f"/budgets/{budget}").raise_for_status().json()["usage"]
            return float(found["spent"]), float(found["reserved"])

        away = join("agent.ada", proxy.url)
        proxy.lose_answers("POST /api/v1/spend/reservations", 1)
        with away.reserve({unit: "0.60"}, model="small") as held:
            assert usage() == (0, 0.6)
            with pytest.raises(ApiError) as refused:
                ada.reserve({unit: "0.60"}).__enter__()
            assert refused.value.code == "BUDGET_EXHAUSTED"
            held.settle({unit: "0.25"})
        assert usage() == (0.25, 0)
        spent = [line for line in ada.spend(by="agent").lines if line.unit == unit]
        assert [(line.agent_id, float(line.amount)) for line in spent] == [("agent.ada", 0.25)]
        with ada.reserve({unit: "0.50"}):
            pass
        assert usage() == (0.25, 0)


def test_a_person_decides(server, ada):
    grace = let_in(server, "human.grace")
    found = []
    thread = threading.Thread(target=lambda: found.append(ada.decide("human.grace", QUESTION, timeout=20)))
    thread.start()
    choose(server.url, grace, 1)
    thread.join(20)
    assert found == ["Publish at six"]


def test_a_question_stays_open_when_nobody_waits(server, ada):
    grace = let_in(server, "human.grace")
    asked = ada.ask_person("human.grace", QUESTION)
    with pytest.raises(DecisionTimeoutError):
        ada.wait_for_decision(asked.id, timeout=0)
    choose(server.url, grace, 0, asked.id)
    decided = ada.wait_for_decision(asked.id)
    assert answer(decided) == "Publish at noon"
    assert decided.acknowledged_at is not None


def test_an_envelope_is_signed_verified_and_sent_once(ada, bob, join, proxy):
    key = SigningKey.generate(f"key-{uuid.uuid4().hex[:8]}")
    away = join("agent.ada", proxy.url)
    mail = away.mailbox(key=key)
    mail.register_key()
    box = bob.mailbox()
    seen = box.read()["last_seq"]
    proxy.lose_answers("POST /api/v1/aee/envelopes", 1)
    receipt = mail.send("agent.bob", "data.rows.counted", {"rows": 48211, "share": 0.1, "größe": 1e21})
    assert proxy.lost == 1
    assert receipt.verified.kid == key.kid
    found = box.read(after=seen, wait=5)
    assert [one["envelope"]["id"] for one in found["items"]] == [receipt.id]
    with box.stream() as stream:
        assert any(event.data["envelope"]["id"] == receipt.id for event in stream)
    assert box.acknowledge(found["items"][0]["seq"]).acked_seq >= found["items"][0]["seq"]
    forged = {**found["items"][0]["envelope"], "id": str(uuid.uuid4())}
    with pytest.raises(ApiError) as refused:
        mail.put(forged)
    assert refused.value.code == "bad_signature"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100000.0, "100000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (123456789.125, "123456789.125"),
        (5e-324, "5e-324"),
        (333333333.33333329, "333333333.3333333"),
        # By UTF-16 code units: the first of the pair is smaller than the last letter, whose code point is not.
        ({"\u20ac": 1, "\ufb33": 3, "\U0001f600": 2}, '{"\u20ac":1,"\U0001f600":2,"\ufb33":3}'),
        ("\u0000\n\"\\/\u007fé", '"\\u0000\\n\\"\\\\/\x7fé"'),
    ],
)
def test_the_canonical_form_is_that_of_rfc_8785(value, text):
    assert canonical(value).decode() == text
