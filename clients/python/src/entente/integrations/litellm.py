"""LiteLLM: each call is reserved in the budgets that pay for it before it is made, and settled with its cost after it.

    from entente.integrations.litellm import completion          # in place of `from litellm import completion`

A call for which too little is left is not made: it raises LiteLLM's own BudgetExceededError. LiteLLM's callbacks are not used because they
cannot refuse a call of the SDK; for its proxy there is examples/litellm_budget.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from functools import cache
from typing import Any

import httpx
import litellm
from litellm.exceptions import BudgetExceededError, Timeout

from .._sync.client import Entente
from .._sync.spending import Reservation
from ..errors import ApiError, EntenteError

# The decimals of an amount.
STEP = Decimal(1).scaleb(-12)
# What a call may say of its prices, and LiteLLM's list does; and what it may say besides.
PRICES = ("input_cost_per_token", "output_cost_per_token")
CACHE_PRICES = ("cache_read_input_token_cost", "cache_creation_input_token_cost")
# Errors of a request that never reached the model.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
log = logging.getLogger("entente")


class Budget:
    """Calls that are paid for by the acting agent's budgets in one unit, and by those of an intent if one is given. Of a call that does not
    limit its answer, `most` tokens are reserved for that."""

    def __init__(self, client: Entente | None = None, *, unit: str = "USD", intent_id: str | None = None, most: int = 4096) -> None:
        self._client = client or Entente()
        self._unit, self._intent, self._most = unit, intent_id, most

    def completion(self, model: str, messages: Any = None, **call: Any) -> Any:
        """Does what `litellm.completion` does, within the budgets. A stream is settled when it ends, or is left."""
        call |= {"model": model, "messages": messages or []}
        held = self._reserve(call)
        try:
            found = litellm.completion(**call)
        except BaseException as wrong:
            held.settle(held.lost(wrong))
            raise
        if call.get("stream"):
            return self._streamed(held, call, found)
        held.settle(self._cost(held, call, lambda: found))
        return found

    async def acompletion(self, model: str, messages: Any = None, **call: Any) -> Any:
        """Does what `litellm.acompletion` does, within the budgets. A stream is settled when it ends, or is left."""
        call |= {"model": model, "messages": messages or []}
        held = await asyncio.to_thread(self._reserve, call)
        try:
            found = await litellm.acompletion(**call)
        except BaseException as wrong:
            await asyncio.shield(asyncio.to_thread(held.settle, held.lost(wrong)))
            raise
        if call.get("stream"):
            return self._astreamed(held, call, found)
        await asyncio.shield(asyncio.to_thread(held.settle, self._cost(held, call, lambda: found)))
        return found

    def _streamed(self, held: Held, call: dict[str, Any], stream: Any) -> Iterator[Any]:
        chunks: list[Any] = []
        cost = None
        try:
            for chunk in stream:
                chunks.append(chunk)
                yield chunk
        except BaseException as wrong:
            cost = held.lost(wrong) if not chunks else None
            raise
        finally:
            held.settle(self._cost_of(held, call, chunks) if cost is None else cost)

    async def _astreamed(self, held: Held, call: dict[str, Any], stream: Any) -> AsyncIterator[Any]:
        chunks: list[Any] = []
        cost = None
        try:
            async for chunk in stream:
                chunks.append(chunk)
                yield chunk
        except BaseException as wrong:
            cost = held.lost(wrong) if not chunks else None
            raise
        finally:
            cost = self._cost_of(held, call, chunks) if cost is None else cost
            await asyncio.shield(asyncio.to_thread(held.settle, cost))

    def _reserve(self, call: dict[str, Any]) -> Held:
        own = _own_prices(call)
        listed: Any = litellm.get_model_info(call["model"]) if own is None else own
        given, taken = (Decimal(str(listed.get(name) or 0)) for name in PRICES)
        asked = litellm.token_counter(model=call["model"], messages=call["messages"], tools=call.get("tools"))
        limit = call.get("max_completion_tokens") or call.get("max_tokens") or self._most
        most = given * asked + taken * limit * (call.get("n") or 1)
        reservation = self._client.reserve({self._unit: _amount(most)}, model=call["model"], intent_id=self._intent)
        try:
            reservation.__enter__()
        except ApiError as refused:
            if refused.code == "BUDGET_EXHAUSTED":
                raise BudgetExceededError(float(most), 0.0, message=refused.message) from refused
            raise
        return Held(reservation, self._unit, most)

    def _cost_of(self, held: Held, call: dict[str, Any], chunks: list[Any]) -> Decimal:
        return self._cost(held, call, lambda: litellm.stream_chunk_builder(chunks, messages=call["messages"]))

    def _cost(self, held: Held, call: dict[str, Any], answer: Callable[[], Any]) -> Decimal:
        # Prices of the call itself are in place of LiteLLM's list, which also knows what cached tokens cost, and long prompts.
        own: Any = _own_prices(call)
        try:
            whole = answer()
            if whole is None:
                raise ValueError("there is no answer")
            return Decimal(str(litellm.completion_cost(whole, model=call["model"], custom_cost_per_token=own)))
        except Exception as unknown:
            log.warning("What a call of %s cost is not known; the most that it can cost is charged: %s", call["model"], unknown)
            return held.most


@dataclass(frozen=True)
class Held:
    """A reservation, and its amount."""

    reservation: Reservation
    unit: str
    most: Decimal

    def lost(self, wrong: BaseException) -> Decimal:
        """Returns what a call has cost that has ended so: nothing if it was refused or never sent, and the most that it can cost if
        nobody waited for its answer, or it was lost on its way, because the model may have written it."""
        for one in _causes(wrong):
            if isinstance(one, UNSENT):
                return Decimal(0)
            if isinstance(one, httpx.TransportError) or not isinstance(one, Exception):
                return self.most
        return self.most if isinstance(wrong, (Timeout, TimeoutError, asyncio.TimeoutError)) else Decimal(0)

    def settle(self, cost: Decimal) -> None:
        """Charges what the call has cost."""
        if self.reservation.reservation.reservation_id is None:
            return
        try:
            self.reservation.settle({self.unit: _amount(cost)})
        except EntenteError as lost:
            # The answer is there and paid for: it is not lost too.
            found = self.reservation.reservation.reservation_id
            log.warning("The cost of a call was not settled; its reservation %s expires: %s", found, lost)


def _causes(wrong: BaseException) -> Iterator[BaseException]:
    """Yields an error and those that it was raised of."""
    found, seen = [wrong], set[int]()
    for one in found:
        seen.add(id(one))
        yield one
        found += [other for other in [one.__cause__ or one.__context__] if other is not None and id(other) not in seen]


def _own_prices(call: dict[str, Any]) -> dict[str, float] | None:
    """Returns what a token costs as the call says; None if it does not."""
    if call.get(PRICES[0]) is None:
        return None
    return {name: call.get(name) or 0.0 for name in PRICES} | {name: call[name] for name in CACHE_PRICES if call.get(name) is not None}


def _amount(cost: Decimal) -> str:
    """An amount as the server reads it: exact, rounded up in the last decimal."""
    return format(cost.quantize(STEP, rounding=ROUND_UP), "f")


@cache
def _default() -> Budget:
    return Budget()


def completion(model: str, messages: Any = None, **call: Any) -> Any:
    """Does what `litellm.completion` does, within the budgets of the agent of ENTENTE_API_KEY."""
    return _default().completion(model, messages, **call)


async def acompletion(model: str, messages: Any = None, **call: Any) -> Any:
    """Does what `litellm.acompletion` does, within the budgets of the agent of ENTENTE_API_KEY."""
    return await _default().acompletion(model, messages, **call)
