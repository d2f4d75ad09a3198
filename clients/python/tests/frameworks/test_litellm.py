# Calls through LiteLLM's SDK are paid for by budgets: reserved before, settled after, and refused when too little is left.

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import httpx
import pytest

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
litellm = pytest.importorskip("litellm")

from entente import ApiError  # noqa: E402
from entente.integrations.litellm import Budget  # noqa: E402

# A token costs 0.0001, a call with its answer of at most 20 tokens less than a cent; the model on loopback says that it took 20 in all.
PRICES = {"input_cost_per_token": 0.0001, "output_cost_per_token": 0.0001}
COST = Decimal("0.002")
MESSAGES = [{"role": "user", "content": "Say something short, please."}]


@pytest.fixture
def call(model):
    made = {"model": "openai/stub", "messages": MESSAGES, "max_tokens": 20, "api_base": f"{model.url}/v1", "api_key": "none"}
    return made | PRICES | {"num_retries": 0}


@pytest.fixture
def limits(server):
    """Creates a budget of the agent's, and says what is left of it."""
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}, timeout=30) as admin:
        made = []

        def one(limit):
            body = {"scope": "principal:agent.ada", "unit": "USD", "limit": limit}
            made.append(admin.post("/budgets", json=body).raise_for_status().json()["id"])
            return lambda: usage(made[-1])

        def usage(budget):
            found = admin.get(f"/budgets/{budget}").raise_for_status().json()["usage"]
            return {name: Decimal(str(found[name])) for name in ("spent", "reserved")}

        yield one
        for budget in made:
            admin.delete(f"/budgets/{budget}").raise_for_status()


def test_a_call_costs_what_it_did(limits, call):
    usage = limits("0.05")
    assert Budget().completion(**call).choices[0].message.content == "Nothing to pay."
    assert usage() == {"spent": COST, "reserved": 0}


def test_without_a_budget_a_call_is_made(call):
    assert Budget().completion(**call).choices


def test_the_budget_is_exhausted_in_the_middle(limits, call, model):
    usage, done = limits("0.008"), 0
    before = len(model.requests)
    with pytest.raises(litellm.BudgetExceededError) as refused:
        for _ in range(10):
            Budget().completion(**call)
            done += 1
    assert 0 < done < 4 and "budget" in str(refused.value)
    assert len(model.requests) - before == done, "what is refused is not sent"
    assert usage() == {"spent": done * COST, "reserved": 0}


def test_parallel_calls_overspend_nothing(limits, call):
    usage = limits("0.02")

    def one(_):
        try:
            return Budget().completion(**call)
        except litellm.BudgetExceededError:
            return None

    with ThreadPoolExecutor(16) as pool:
        done = [found for found in pool.map(one, range(24)) if found]
    assert 0 < len(done) < 24
    assert usage() == {"spent": len(done) * COST, "reserved": 0}


def test_a_call_that_fails_costs_nothing(limits, call):
    usage = limits("0.05")
    with pytest.raises(litellm.exceptions.InternalServerError):
        Budget().completion(**call | {"api_base": "http://127.0.0.1:9/v1"})
    assert usage() == {"spent": 0, "reserved": 0}


def most(call):
    """The most that a call can cost."""
    asked = litellm.token_counter(model=call["model"], messages=MESSAGES)
    return Decimal("0.0001") * (asked + call["max_tokens"])


# The model may have written the answer, and its provider bills it.
@pytest.mark.parametrize(("word", "stream"), [("hangs", False), ("drops", False), ("hangs", True), ("drops", True)])
def test_a_call_whose_answer_is_lost_costs_the_most_that_it_can(limits, call, word, stream):
    usage = limits("0.05")
    call |= {"model": f"openai/{word}", "timeout": 1, "max_retries": 0, "stream": stream}
    with pytest.raises((litellm.Timeout, litellm.exceptions.InternalServerError)):
        Budget().completion(**call)
    assert usage() == {"spent": most(call), "reserved": 0}

    async def main():
        await Budget().acompletion(**call)

    with pytest.raises((litellm.Timeout, litellm.exceptions.InternalServerError, litellm.exceptions.APIConnectionError)):
        asyncio.run(main())
    assert usage() == {"spent": 2 * most(call), "reserved": 0}


def test_a_call_that_is_cancelled_costs_the_most_that_it_can(limits, call, model):
    usage = limits("0.05")
    call |= {"model": "openai/hangs"}

    async def main():
        before = len(model.requests)
        calling = asyncio.create_task(Budget().acompletion(**call))
        while len(model.requests) == before:
            await asyncio.sleep(0.02)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(asyncio.wait_for(main(), 60))
    assert usage() == {"spent": most(call), "reserved": 0}


@pytest.mark.parametrize("builder", [lambda *_, **__: 1 / 0, lambda *_, **__: None])
def test_a_stream_that_cannot_be_put_together_costs_the_most_that_it_can(limits, call, monkeypatch, builder):
    usage = limits("0.05")
    monkeypatch.setattr(litellm, "stream_chunk_builder", builder)
    assert list(Budget().completion(**call, stream=True))
    assert usage() == {"spent": most(call), "reserved": 0}

    async def main():
        return [one async for one in await Budget().acompletion(**call, stream=True)]

    assert asyncio.run(main())
    assert usage() == {"spent": 2 * most(call), "reserved": 0}


def test_cached_tokens_cost_what_the_list_says(limits, call):
    usage = limits("0.05")
    listed = PRICES | {"cache_read_input_token_cost": 0.00001, "litellm_provider": "openai", "mode": "chat"}
    litellm.register_model({"openai/caches": listed})
    Budget().completion(**{name: value for name, value in call.items() if name not in PRICES} | {"model": "openai/caches"})
    assert usage() == {"spent": Decimal("0.0011"), "reserved": 0}
    # A call may also say it itself.
    Budget().completion(**call | {"model": "openai/caches", "cache_read_input_token_cost": 0.00002})
    assert round(usage()["spent"], 9) == Decimal("0.0023") and usage()["reserved"] == 0


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_is_settled_at_its_end_or_when_it_is_left(limits, call, whole):
    usage = limits("0.05")
    stream = Budget().completion(**call, stream=True, stream_options={"include_usage": True})
    assert usage()["reserved"] > 0
    next(stream)
    if whole:
        list(stream)
    else:
        stream.close()
    assert usage()["reserved"] == 0
    assert usage()["spent"] == COST if whole else usage()["spent"] > 0


def test_the_same_with_asyncio(limits, call):
    usage = limits("0.05")

    async def main():
        await Budget().acompletion(**call)
        async for _ in await Budget().acompletion(**call, stream=True, stream_options={"include_usage": True}):
            pass

    asyncio.run(main())
    assert usage() == {"spent": 2 * COST, "reserved": 0}


def test_a_stop_is_heard(server, call):
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}) as admin:
        stop = admin.post("/stops", json={"scope": "principal:agent.ada", "reason": "the test says so"}).raise_for_status().json()
        try:
            with pytest.raises(ApiError, match="the test says so"):
                Budget().completion(**call)
        finally:
            admin.delete(f"/stops/{stop['id']}").raise_for_status()


def test_a_model_without_a_price_is_not_called(call, model):
    before = len(model.requests)
    with pytest.raises(Exception, match="isn't mapped"):
        Budget().completion(**{name: value for name, value in call.items() if name not in PRICES} | {"model": "openai/nobody-knows"})
    assert len(model.requests) == before
