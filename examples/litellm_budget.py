"""Budgets of Entente for a LiteLLM proxy: each call is reserved before it is made, and settled with its cost after it.

Put this file beside the proxy's configuration, and name it there:

    litellm_settings:
      callbacks: litellm_budget.entente

    ENTENTE_URL, ENTENTE_API_KEY   the server, and a key with the scope `jobs:work` or `tools:use`
    ENTENTE_UNIT                   the unit of the budgets, USD by default
    ENTENTE_MAX_TOKENS             answer tokens to reserve for a call that does not limit them, 4096 by default

The agent that pays is the alias of the caller's LiteLLM key, if the Entente key may act as it; otherwise the Entente key's own.
A call is refused (403) when it is stopped, or when a budget has too little left for the most that it can cost.
"""

import os
import uuid
from decimal import ROUND_UP, Decimal

import httpx
import litellm
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

# The decimals of an amount.
STEP = Decimal(1).scaleb(-12)


def amount(cost) -> str:
    """An amount as Entente reads it: exact, rounded up in the last decimal."""
    return format(Decimal(str(cost)).quantize(STEP, rounding=ROUND_UP), "f")


def prices(model: str) -> tuple[Decimal, Decimal]:
    """What an input and an output token of a model cost: as the proxy's configuration says, or LiteLLM's own list."""
    from litellm.proxy.proxy_server import llm_router

    known = llm_router.get_model_list(model_name=model) if llm_router else None
    found = []
    for deployment in known or []:
        terms = deployment.get("litellm_params") or {}
        if terms.get("input_cost_per_token") is None:
            terms = litellm.get_model_info(terms.get("model") or model)
        found.append((Decimal(str(terms["input_cost_per_token"])), Decimal(str(terms["output_cost_per_token"]))))
    if not found:
        terms = litellm.get_model_info(model)
        found.append((Decimal(str(terms["input_cost_per_token"])), Decimal(str(terms["output_cost_per_token"]))))
    # Any of the deployments may answer: the dearest is reserved.
    return max(one for one, _ in found), max(other for _, other in found)


class EntenteBudget(CustomLogger):
    """Reserves before each call and settles after it."""

    def __init__(self):
        super().__init__()
        self.unit = os.environ.get("ENTENTE_UNIT", "USD")
        self.most = int(os.environ.get("ENTENTE_MAX_TOKENS", "4096"))
        self.http = httpx.AsyncClient(
            base_url=os.environ["ENTENTE_URL"],
            headers={"x-api-key": os.environ["ENTENTE_API_KEY"]},
            timeout=10,
        )

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        model = data["model"]
        given, taken = prices(model)
        asked = litellm.token_counter(model=model, messages=data.get("messages"), text=data.get("input") or data.get("prompt"))
        limit = data.get("max_completion_tokens") or data.get("max_tokens") or self.most
        body = {
            "model": model,
            "reserve": {self.unit: amount(given * asked + taken * limit * (data.get("n") or 1))},
            "call_id": str(data.get("litellm_call_id") or uuid.uuid4()),
        }
        if user_api_key_dict.key_alias:
            body["agent_id"] = user_api_key_dict.key_alias
        answer = await self.http.post("/api/v1/spend/reservations", json=body)
        if answer.status_code != 201:
            # Whatever the reason, a call that could not be reserved is not made.
            told = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            raise HTTPException(status_code=403, detail=told.get("message") or f"Entente answered {answer.status_code}.")
        data.setdefault("metadata", {})["entente_reservation"] = answer.json()["reservation_id"]
        return data

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        await self.settle(kwargs, {self.unit: amount(kwargs.get("response_cost") or 0)})

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        await self.settle(kwargs, {})

    async def settle(self, kwargs, cost):
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        if reservation := metadata.get("entente_reservation"):
            # A settlement that is lost is released when the reservation expires; a repeated one changes nothing.
            answer = await self.http.post(f"/api/v1/spend/reservations/{reservation}/settle", json={"cost": cost})
            answer.raise_for_status()


entente = EntenteBudget()
