"""Entente, the coordination server for AI agents, from Python: `Entente`, `AsyncEntente`, and agents and workers on them."""

from . import operations, requests, types
from ._async.client import AsyncEntente
from ._async.decisions import answer
from ._async.jobs import Job as AsyncJob
from ._records import Record, members
from ._request import Answer, Request
from ._settings import VERSION as __version__
from ._sse import Event
from ._sync.client import Entente
from ._sync.jobs import Job
from .agents import Agent, BaseAgent, on_assignment, on_entry, on_message
from .errors import (
    ApiError,
    AuthenticationError,
    ClaimError,
    ConflictError,
    ConnectionLostError,
    DecisionTimeoutError,
    EntenteError,
    ForbiddenError,
    InvalidError,
    JobCancelledError,
    JobError,
    LeaseError,
    MessageTimeoutError,
    NotFoundError,
    TooManyError,
    UnavailableError,
)
from .signing import SigningKey
from .worker import Worker

__all__ = [
    "Agent",
    "Answer",
    "ApiError",
    "AsyncEntente",
    "AsyncJob",
    "AuthenticationError",
    "BaseAgent",
    "ClaimError",
    "ConflictError",
    "ConnectionLostError",
    "DecisionTimeoutError",
    "Entente",
    "EntenteError",
    "Event",
    "ForbiddenError",
    "InvalidError",
    "Job",
    "JobCancelledError",
    "JobError",
    "LeaseError",
    "MessageTimeoutError",
    "NotFoundError",
    "Record",
    "Request",
    "SigningKey",
    "TooManyError",
    "UnavailableError",
    "Worker",
    "__version__",
    "answer",
    "members",
    "on_assignment",
    "on_entry",
    "on_message",
    "operations",
    "requests",
    "types",
]
