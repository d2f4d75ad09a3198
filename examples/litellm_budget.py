"""Budgets of Entente for a LiteLLM proxy: each call is reserved before it is made, and settled with its cost after it.

Put this file beside the proxy's configuration, and name it there:

    litellm_settings:
      callbacks: litellm_budget.entente

    ENTENTE_URL, ENTENTE_API_KEY   the server, and a key with the scope `jobs:work` or `tools:use`
    ENTENTE_UNIT                   the unit of the budgets, USD by default
    ENTENTE_MAX_TOKENS             answer tokens of a call that does not limit them, 4096 by default: the call is limited to them
    ENTENTE_HOLD_SECONDS           for how long a call may take with all its attempts, 3600 by default; then its amount is free again

Who pays: of a LiteLLM key that Entente made for a job, whoever submitted the job; else the principal and agent that the key's alias names,
with their teams; of a key without an alias, the Entente key's own. The Entente key must be able to act as them (`act_as`).
A call is refused (403) when it is stopped, or when a budget has too little left for the most that it can cost.
"""

import json
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


# Where a call says how long its answer may be; the first one is set if none of them is.
LIMITS = {"responses": ("max_output_tokens",), "": ("max_tokens", "max_completion_tokens")}


class EntenteBudget(CustomLogger):
    """Reserves before each call and settles after it."""

    def __init__(self):
        super().__init__()
        self.unit = os.environ.get("ENTENTE_UNIT", "USD")
        self.most = int(os.environ.get("ENTENTE_MAX_TOKENS", "4096"))
        self.hold = int(os.environ.get("ENTENTE_HOLD_SECONDS", "3600"))
        self.http = httpx.AsyncClient(
            base_url=os.environ["ENTENTE_URL"],
            headers={"x-api-key": os.environ["ENTENTE_API_KEY"]},
            timeout=10,
        )

    async def post(self, path, body):
        """Sends a request, and once more if its answer is lost."""
        try:
            return await self.http.post(path, json=body)
        except httpx.TransportError:
            return await self.http.post(path, json=body)

    def limit(self, data, call_type):
        """The most tokens of an answer, to which the call is limited if it is not."""
        names = LIMITS["responses" if "responses" in call_type else ""]
        if "embedding" in call_type:
            return 0
        if not any(data.get(name) for name in names):
            data[names[0]] = self.most
        return max(int(data.get(name) or 0) for name in names)

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        model = data["model"]
        given, taken = prices(model)
        asked = 0
        if data.get("messages"):
            asked += litellm.token_counter(model=model, messages=data["messages"], tools=data.get("tools"))
        # What the other endpoints call it; a tool is counted by what is written of it.
        words = [data[name] for name in ("input", "prompt", "instructions", "system") if data.get(name)]
        if not data.get("messages") and data.get("tools"):
            words.append(data["tools"])
        for one in words:
            asked += litellm.token_counter(model=model, text=one if isinstance(one, str) else json.dumps(one))
        most = given * asked + taken * self.limit(data, str(call_type)) * (data.get("n") or 1)
        # An id of our own: the client chooses LiteLLM's, and a call that repeats one must not pass as the same call.
        body = {"model": model, "reserve": {self.unit: amount(most)}, "call_id": uuid.uuid4().hex, "expires_in": self.hold}
        if job := (user_api_key_dict.metadata or {}).get("job_id"):
            body["job_id"] = job
        elif alias := user_api_key_dict.key_alias:
            body |= {"principal_id": alias, "agent_id": alias}
        answer = await self.post("/api/v1/spend/reservations", body)
        if answer.status_code != 201:
            # Whatever the reason, a call that could not be reserved is not made.
            told = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            raise HTTPException(status_code=403, detail=told.get("message") or f"Entente answered {answer.status_code}.")
        metadata = data.get("litellm_metadata")
        metadata = metadata if isinstance(metadata, dict) else data.setdefault("metadata", {})
        metadata["entente_reservation"] = answer.json()["reservation_id"]
        return data

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        await self.settle(kwargs.get("litellm_params") or {}, {self.unit: amount(kwargs.get("response_cost") or 0)})

    async def async_post_call_failure_hook(self, request_data, original_exception, user_api_key_dict, traceback_str=None):
        # After the last attempt: LiteLLM also logs a failure for each that it repeats.
        await self.settle(request_data, {})

    async def settle(self, place, cost):
        both = [place.get(name) or {} for name in ("metadata", "litellm_metadata")]
        for reservation in {one["entente_reservation"] for one in both if "entente_reservation" in one}:
            # A settlement that is lost is released when the reservation expires; a repeated one changes nothing.
            answer = await self.post(f"/api/v1/spend/reservations/{reservation}/settle", {"cost": cost})
            answer.raise_for_status()


entente = EntenteBudget()
