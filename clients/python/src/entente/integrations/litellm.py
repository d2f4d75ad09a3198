"""LiteLLM: each call is reserved in the budgets that pay for it before it is made, and settled with its cost after it.

    from entente.integrations.litellm import completion          # in place of `from litellm import completion`

A call for which too little is left is not made: it raises LiteLLM's own BudgetExceededError. LiteLLM's callbacks are not used because they
cannot refuse a call of the SDK; for its proxy there is examples/litellm_budget.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from functools import cache
from typing import Any

import litellm
from litellm.exceptions import BudgetExceededError

from .._approvals import fresh
from .._generated import operations as api
from .._sync.client import Entente
from ..errors import ApiError, EntenteError

# The decimals of an amount.
STEP = Decimal(1).scaleb(-12)
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
        except BaseException:
            self._settle(held, call, None)
            raise
        if call.get("stream"):
            return self._streamed(held, call, found)
        self._settle(held, call, found)
        return found

    async def acompletion(self, model: str, messages: Any = None, **call: Any) -> Any:
        """Does what `litellm.acompletion` does, within the budgets. A stream is settled when it ends, or is left."""
        call |= {"model": model, "messages": messages or []}
        held = await asyncio.to_thread(self._reserve, call)
        try:
            found = await litellm.acompletion(**call)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._settle, held, call, None))
            raise
        if call.get("stream"):
            return self._astreamed(held, call, found)
        await asyncio.to_thread(self._settle, held, call, found)
        return found

    def _streamed(self, held: Held | None, call: dict[str, Any], stream: Any) -> Iterator[Any]:
        chunks: list[Any] = []
        try:
            for chunk in stream:
                chunks.append(chunk)
                yield chunk
        finally:
            self._settle(held, call, self._whole(call, chunks))

    async def _astreamed(self, held: Held | None, call: dict[str, Any], stream: Any) -> AsyncIterator[Any]:
        chunks: list[Any] = []
        try:
            async for chunk in stream:
                chunks.append(chunk)
                yield chunk
        finally:
            await asyncio.shield(asyncio.to_thread(self._settle, held, call, self._whole(call, chunks)))

    def _whole(self, call: dict[str, Any], chunks: list[Any]) -> Any:
        return litellm.stream_chunk_builder(chunks, messages=call["messages"]) if chunks else None

    def _prices(self, call: dict[str, Any]) -> dict[str, float]:
        """What a token costs: as the call says, or LiteLLM's list."""
        names = ("input_cost_per_token", "output_cost_per_token")
        known: Any = call if call.get(names[0]) is not None else litellm.get_model_info(call["model"])
        return {name: known.get(name) or 0.0 for name in names}

    def _reserve(self, call: dict[str, Any]) -> Held | None:
        given, taken = (Decimal(str(price)) for price in self._prices(call).values())
        asked = litellm.token_counter(model=call["model"], messages=call["messages"], tools=call.get("tools"))
        limit = call.get("max_completion_tokens") or call.get("max_tokens") or self._most
        most = given * asked + taken * limit * (call.get("n") or 1)
        body: Any = {"reserve": {self._unit: _amount(most)}, "model": call["model"], "call_id": fresh()}
        if self._intent is not None:
            body["intent_id"] = self._intent
        try:
            made = self._client.call(api.reserve_spend(body).repeatable()).reservation_id
        except ApiError as refused:
            if refused.code == "BUDGET_EXHAUSTED":
                raise BudgetExceededError(float(most), 0.0, message=refused.message) from refused
            raise
        return None if made is None else Held(made, most)

    def _settle(self, held: Held | None, call: dict[str, Any], found: Any) -> None:
        if held is None:
            return
        cost = Decimal(0) if found is None else self._cost(held, call, found)
        try:
            self._client.call(api.settle_spend(held.id, {"cost": {self._unit: _amount(cost)}}).repeatable())
        except EntenteError as lost:
            # The answer is there and paid for: it is not lost too.
            log.warning("The cost of a call was not settled; its reservation %s expires: %s", held.id, lost)

    def _cost(self, held: Held, call: dict[str, Any], found: Any) -> Decimal:
        prices: Any = self._prices(call)
        try:
            return Decimal(str(litellm.completion_cost(found, model=call["model"], custom_cost_per_token=prices)))
        except Exception as unknown:
            log.warning("What a call of %s cost is not known; the most that it can cost is charged: %s", call["model"], unknown)
            return held.most


@dataclass(frozen=True)
class Held:
    """A reservation, and its amount."""

    id: str
    most: Decimal


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
