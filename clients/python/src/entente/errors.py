"""Errors: each says what is wrong, and what to do about it."""

from __future__ import annotations

import json
from typing import Any

from ._generated.answers import FieldError, MessageBody, Moment


class EntenteError(Exception):
    """Every error of this package."""


class ApiError(EntenteError):
    """The server refused a request."""

    def __init__(self, status: int, body: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.body = body
        # The reason, from a closed list; programs may switch on it.
        self.code: str = str(body.get("code") or f"http_{status}")
        self.message: str = str(body.get("message") or body.get("detail") or "The server gave no reason.")
        self.title: str = str(body.get("title") or "")
        self.errors: list[FieldError] = [FieldError(one) for one in body.get("errors") or [] if isinstance(one, dict)]
        self.request_id: str = str(body.get("request_id") or "")
        self.retry_after = retry_after
        super().__init__(self.status, self.code, self.message)

    def __str__(self) -> str:
        wrong = "".join(f"\n  {json.dumps(one['loc']) if 'loc' in one else ''} {one.msg}" for one in self.errors)
        return f"{self.status} {self.code}: {self.message}{wrong}\n  {self.what_to_do}"

    @property
    def what_to_do(self) -> str:
        """The next step, for whoever reads the error."""
        if self.code in _ADVICE_BY_CODE:
            return _ADVICE_BY_CODE[self.code]
        return _ADVICE.get(self.status, "Tell the operator the request's id: it is in the server's log." if self.status >= 500 else "")


class AuthenticationError(ApiError):
    """401: there is no key, or it is not valid."""


class ForbiddenError(ApiError):
    """403: the key or its agent may not do this."""


class NotFoundError(ApiError):
    """404: the object does not exist, or the caller may not see it."""


class ConflictError(ApiError):
    """409 or 412: the state is not what the request expects."""


class LeaseError(ConflictError):
    """A lease is held by somebody else, or has ended."""


class ClaimError(ConflictError):
    """A claim of a task or a job no longer holds: somebody else works on it, or it has ended."""


class InvalidError(ApiError):
    """400 or 422: the request cannot be understood, or asks for what is not possible."""


class TooManyError(ApiError):
    """429: too much at once; `retry_after` says when to try again."""


class UnavailableError(ApiError):
    """503: the server cannot do it now."""


class ConnectionLostError(EntenteError):
    """The server could not be reached, or its answer was lost."""

    def __init__(self, operation: str, reason: BaseException, may_have_happened: bool) -> None:
        self.operation = operation
        self.may_have_happened = may_have_happened
        told = str(reason) or type(reason).__name__
        if may_have_happened:
            step = "It may have happened: read the state before you repeat it."
        else:
            step = "It did not happen. Check the address and that the server runs, and repeat it."
        super().__init__(f"{operation}: {told}. {step}")


class MessageTimeoutError(EntenteError, TimeoutError):
    """Nobody answered a request in time. The request has expired; ask again, ask somebody else, or go on without."""

    def __init__(self, request: MessageBody, timeout: float) -> None:
        self.request = request
        super().__init__(f"{request.to} did not answer {request.id} within {timeout:g} s. The request has expired; nothing is repeated.")


class DecisionTimeoutError(EntenteError, TimeoutError):
    """A person has not answered yet. The question stays open: wait again with `wait_for_decision`."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        super().__init__(f"{moment.principal_id} has not answered {moment.id} yet. It stays open: wait again with wait_for_decision.")


class JobError(EntenteError):
    """A job's failure: a worker's function raises it to say how its job ended; who waits for a job receives it."""

    def __init__(
        self, message: str, code: str = "INTERNAL_ERROR", *, retryable: bool | None = None, details: dict[str, Any] | None = None
    ) -> None:
        self.message, self.code, self.retryable, self.details = message, code, retryable, details
        super().__init__(f"{code}: {message}")


class JobCancelledError(JobError):
    """The job was cancelled, or its claim was lost: stop working on it."""

    def __init__(self, message: str = "The job was cancelled.") -> None:
        super().__init__(message, "CANCELLED", retryable=False)


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    422: InvalidError,
    429: TooManyError,
    503: UnavailableError,
}
_BY_CODE: dict[str, type[ApiError]] = {
    "lease_held": LeaseError,
    "lease_ended": LeaseError,
    "claim_conflict": ClaimError,
    "CLAIM_LOST": ClaimError,
}
_ADVICE = {
    400: "Correct the request; repeating it changes nothing.",
    401: "Give a valid key: `api_key=`, or ENTENTE_API_KEY.",
    403: "Use the agent's own key, or ask whoever manages the intent for access.",
    404: "Check the id, and that your key may see the object.",
    409: "Read the state again, and decide anew.",
    412: "Read the object again, and repeat the change with its `version`.",
    422: "Correct the members that the error names; repeating it unchanged changes nothing.",
    429: "Wait for `retry_after` seconds, and repeat it.",
    503: "Wait for `retry_after` seconds, and repeat it.",
}
_ADVICE_BY_CODE = {
    "lease_held": "Wait for the lease with `wait=`, or work on another scope.",
    "lease_ended": "Stop: somebody else may hold the scope now. Acquire the lease anew and read the state again.",
    "claim_conflict": "Stop: the claim no longer holds. Claim the task anew, or take another one.",
    "CLAIM_LOST": "Stop working on the job without a report: somebody else has it, or it has ended.",
    "stale_epoch": "Stop: a newer session of this agent has begun. Open a session of your own if that one is gone.",
    "epoch_required": "Open a session of the agent, and give its number: `epoch=`.",
    "may_not_act_as": "Use the agent's own key, or one whose `act_as` covers it.",
    "idempotency_mismatch": "Use a new idempotency key: this one belongs to another request.",
}


def refusal(status: int, body: Any, retry_after: float | None) -> ApiError:
    """Returns the error for an answer of the server."""
    told = body if isinstance(body, dict) else {"message": str(body)[:500]}
    cls = _BY_CODE.get(str(told.get("code"))) or _BY_STATUS.get(status) or ApiError
    return cls(status, told, retry_after)
