"""What an agent sees of its job: the SDK's classes, whose reports go to the server.

An agent runs in the event loop of its program, the worker with its heartbeats in one of its own. So an agent that blocks its loop keeps
its job, and `authorize`, which the SDK has made a plain function, can ask the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, Literal, TypeVar

import arcp
from arcp import ARCPError, Credential, CredentialConstraints, Envelope, InvalidRequestError, LeaseConstraints
from arcp import runtime as sdk
from arcp.runtime import Agent, Identity, SessionContext, SessionState
from pydantic_core import to_jsonable_python

from .._async.jobs import Job as Claimed
from .._generated import answers
from .._generated.requests import NewJobEvent
from .._request import encoded
from ..errors import ApiError, ClaimError, EntenteError, JobCancelledError, JobError

T = TypeVar("T")
log = logging.getLogger("entente")

# The version of an agent that was registered without one: every copy of a program serves it, whatever its own version.
UNVERSIONED = "unversioned"
# Bytes of one chunk of a result: the server takes 700 KiB (ARCP-W-2.4), of the whole event as it is written in JSON.
CHUNK_BYTES = 512 * 1024
# Events of one request, and about how many bytes.
BATCH, BATCH_BYTES = 500, 512 * 1024
# Bytes of the events that may wait, and what each counts besides its body; an agent that has more to tell waits for the server.
WAITING_BYTES, EVENT_BYTES = 4 * 1024 * 1024, 1_024
# Seconds for which an agent that was cancelled may clean up, and its last events may be on their way.
CLEANUP = 10.0
# Seconds after which the event loop of a program that ends has ended.
ENDING = 0.5


class ProgramEnded(Exception):
    """The agent's event loop has ended before the agent."""


def refused(error: EntenteError) -> BaseException:
    """Returns a refusal as the SDK has it. The one way in which the SDK tells an agent to stop is that it is cancelled."""
    if isinstance(error, (ClaimError, JobCancelledError)) or (isinstance(error, ApiError) and error.code == "CANCELLED"):
        return asyncio.CancelledError("the job is to stop")
    if isinstance(error, ApiError) and error.code in arcp.ERROR_CODES:
        return arcp.error_from_payload({"code": error.code, "message": error.message})
    return arcp.InternalError(str(error))


def gone() -> asyncio.CancelledError:
    """Returns what stops an agent whose worker has ended, and handed the job back."""
    return asyncio.CancelledError("the worker has ended")


def jsonable(value: Any) -> tuple[Any, int]:
    """Returns a value as the SDK writes it, also dataclasses, models and times, and its size in bytes. One that JSON has no form for is
    refused here, where the agent hears it."""
    try:
        plain = to_jsonable_python(value)
        return plain, len(encoded(plain))
    except (TypeError, ValueError, RecursionError) as unwritable:
        raise InvalidRequestError(f"It cannot be written as JSON: {unwritable}") from unwritable


def failure(error: BaseException) -> JobError:
    """Returns how a job ends whose agent has raised this, as the SDK's runtime decides it."""
    if isinstance(error, ARCPError):
        return JobError(error.message, error.code, retryable=error.retryable, details=error.details or None)
    if isinstance(error, sdk.UpstreamBudgetExhausted):
        return JobError(str(error), "BUDGET_EXHAUSTED", retryable=False)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return JobError(str(error) or "the agent ran out of time", "TIMEOUT", retryable=False)
    log.error("an agent failed", exc_info=error)
    return JobError(str(error), "INTERNAL_ERROR", retryable=True)


class Outbox:
    """The events of a job on their way to the server, in the worker's event loop. While some are sent, those that come are collected: so an
    agent that has much to tell does not wait for an answer after each of them."""

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed
        self._waiting: deque[tuple[NewJobEvent, int]] = deque()
        self._sending: asyncio.Task[None] | None = None
        # Why an event is not stored; the agent has not heard of it yet.
        self.refused: EntenteError | None = None
        # The server's latest answer, and the size of all events that have had one. The agent's thread reads them too.
        self.said: answers.JobReported | None = None
        self.done = 0

    def add(self, event: NewJobEvent, size: int) -> None:
        """Takes an event."""
        self._waiting.append((event, size))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def empty(self) -> None:
        """Waits until all events are stored."""
        while self._sending is not None:
            await asyncio.wait({self._sending})
        if self.refused is not None:
            found, self.refused = self.refused, None
            raise found

    async def _send(self) -> None:
        try:
            while self._waiting:
                events, size = self._batch()
                known = self.refused
                if not await self._sent(events) and len(events) > 1:
                    # One of them is wrong, and nothing of the batch was stored.
                    self.refused = known
                    for event in events:
                        await self._sent([event])
                self.done += size
        finally:
            self._sending = None

    def _batch(self) -> tuple[list[NewJobEvent], int]:
        """Returns the events of one request, at least one, and their size."""
        events: list[NewJobEvent] = []
        total = 0
        while self._waiting and len(events) < BATCH and (not events or total + self._waiting[0][1] <= BATCH_BYTES):
            event, size = self._waiting.popleft()
            events.append(event)
            total += size
        return events, total

    async def _sent(self, events: list[NewJobEvent]) -> bool:
        """Sends events in one request; returns False if the server refused them, and so has stored none."""
        try:
            self.said = await self._claimed.report(events)
        except ClaimError as lost:
            self._waiting.clear()
            self.refused = lost
        except ApiError as found:
            self.refused = self.refused or found
            return False
        except Exception as broken:
            # They may be stored: sent again, under other keys, they would be there twice.
            self.refused = broken if isinstance(broken, EntenteError) else EntenteError(f"{type(broken).__name__}: {broken}")
        return True


class Reports:
    """The worker's claim of a job, as the agent's event loop reaches it."""

    def __init__(self, claimed: Claimed, home: asyncio.AbstractEventLoop) -> None:
        self.claimed = claimed
        self._home = home
        self._outbox = Outbox(claimed)
        self._told = 0

    def _begin(self, report: Coroutine[Any, Any, T]) -> Future[T]:
        async def after_the_events() -> T:
            try:
                await self._outbox.empty()
                return await report
            finally:
                # If it was never sent.
                report.close()

        return self._there(after_the_events())

    def _there(self, done: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(done, self._home)
        except RuntimeError:
            done.close()
            raise gone() from None

    async def tell(self, event: NewJobEvent, size: int, *, stored: bool) -> answers.JobReported | None:
        """Sends an event, and returns the server's latest answer; waits until it is `stored`, or until there is room. Raises the refusal
        of an earlier one."""
        outbox = self._outbox
        try:
            self._home.call_soon_threadsafe(outbox.add, event, size)
        except RuntimeError:
            raise gone() from None
        self._told += size
        if stored or outbox.refused is not None or self._told - outbox.done > WAITING_BYTES:
            try:
                await asyncio.wrap_future(self._there(outbox.empty()))
            except EntenteError as error:
                raise refused(error) from error
        return outbox.said

    async def ask(self, report: Coroutine[Any, Any, T]) -> T:
        """Sends a report after all events, and returns the answer."""
        try:
            return await asyncio.wrap_future(self._begin(report))
        except EntenteError as error:
            raise refused(error) from error

    def ask_now(self, report: Coroutine[Any, Any, T]) -> T:
        """Sends a report after all events, and returns the answer, while the agents' event loop waits."""
        try:
            return self._begin(report).result()
        except EntenteError as error:
            raise refused(error) from error

    async def empty(self) -> None:
        """Waits, in the worker's event loop, until all events are stored."""
        await self._outbox.empty()


class Session(SessionContext):
    """The session that submitted a job, as far as a worker knows it. The server keeps what its client has not acknowledged, and tells the
    client of back pressure: to the worker every event counts as acknowledged."""

    def stamp_and_enqueue(self, env: Envelope) -> None:
        raise InvalidRequestError("The session is the server's. Report with the methods of `ctx`, or with `ctx.job.emit_event`.")


@dataclass
class Job(sdk.Job):
    """A job that this program has claimed."""

    reports: Reports = field(kw_only=True, repr=False)

    async def emit_event(self, kind: str, body: dict[str, Any], *, ts: str | None = None) -> None:
        """Sends an event. One that is refused is raised by the next, or by the end of the job; a cost is stored before this returns."""
        if self.state != "running":
            log.warning("the job %s has ended: its agent's event %s is dropped", self.job_id, kind)
            return
        now = ts or datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        costs = kind == "metric" and str(body.get("name")).startswith("cost.")
        event, size = jsonable({"kind": kind, "body": body, "ts": now})
        said = await self.reports.tell(event, size + EVENT_BYTES, stored=costs)
        if said is not None:
            self.session.set_event_seq(said.last_event_seq)
            self.session.record_ack(said.last_event_seq)
            self.hear(said.budget)

    def hear(self, remaining: Mapping[str, Any]) -> None:
        """Notes what is left of the budget, which other jobs may spend too."""
        self.budget = budget(remaining)

    def apply_cost_metric(self, name: str, value: Decimal | float | int | str, unit: str | None) -> Decimal | None:
        """Leaves the counting to the server, which charges a cost with its event, and reports what remains."""
        return None

    async def emit_result(self, payload: Any) -> None:
        """Reports the end of the job."""
        if payload.final_status != "success":
            code = {"cancelled": "CANCELLED", "timed_out": "TIMEOUT"}[payload.final_status]
            await self.reports.ask(self.reports.claimed.fail(JobError(payload.summary or "ended by the agent", code)))
        else:
            result, _ = jsonable(payload.result)
            end = self.reports.claimed.finish(result, result_id=payload.result_id, summary=payload.summary)
            await self.reports.ask(end)
            self.inline_result_emitted = payload.result is not None
        self.state = payload.final_status

    async def emit_error(self, payload: Any) -> None:
        """Reports the failure of the job."""
        failed = JobError(payload.message, payload.code, retryable=payload.retryable, details=payload.details)
        await self.reports.ask(self.reports.claimed.fail(failed))
        self.state = "error"


class ResultStream(sdk.ResultStream):
    """The SDK's writer of a streamed result, which divides what is longer than a chunk may be."""

    async def write(self, data: bytes | str, *, encoding: Literal["utf8", "base64"] | None = None) -> None:
        """Writes a part of the result."""
        cap = self._ctx.chunk_size_cap
        if isinstance(data, str):
            # A character has at most twelve bytes in JSON.
            step = cap // 12 if len(json.dumps(data)) > cap else max(len(data), 1)
        else:
            step = cap // 4 * 3
        for start in range(0, max(len(data), 1), step):
            await super().write(data[start : start + step], encoding=encoding)


@dataclass
class JobContext(sdk.JobContext):
    """The SDK's context, and what a durable job adds: the number of its attempt, and the progress that an earlier one has stored."""

    job: Job

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1: it is higher if another program began the job and did not end it."""
        return self.job.reports.claimed.attempt

    @property
    def progress_so_far(self) -> Any:
        """What an earlier attempt stored last; None at the first."""
        return self.job.reports.claimed.progress_so_far

    async def checkpoint(self, progress: Any) -> None:
        """Stores how far the work is, any JSON of up to 100 KiB. Should this program end, the next has it as `progress_so_far`."""
        await self.job.reports.ask(self.job.reports.claimed.checkpoint(progress))

    def authorize(
        self, capability: str, target: str, *, cost: dict[str, Decimal] | None = None, now: datetime | None = None
    ) -> None:
        """Asks the server whether the job may do this now; raises PermissionDeniedError, LeaseExpiredError or BudgetExhaustedError."""
        allowed = self.job.reports.ask_now(self.job.reports.claimed.authorize(capability, target))
        self.job.hear(allowed.budget)

    def authorize_model(self, model_id: str, *, now: datetime | None = None) -> None:
        """Asks the server whether the job may use a model."""
        self.authorize("model.use", model_id)

    async def rotate_credential(self, credential_id: str, new_value: str) -> None:
        """Gives the submitting session a new value of a credential; the server revokes the former one."""
        known = [one.id for one in self.job.credentials]
        if credential_id not in known:
            raise InvalidRequestError(f"unknown credential id: {credential_id}")
        await self.job.reports.ask(self.job.reports.claimed.rotate_credential(credential_id, new_value))
        self.job.credentials = tuple(replace(one, value=new_value) if one.id == credential_id else one for one in self.job.credentials)

    def stream_result(self, *, result_id: str | None = None) -> ResultStream:
        """Opens a writer of a streamed result; `await stream.close(...)` ends it, and the job."""
        return ResultStream(self, result_id=result_id or self.job.reports.claimed.claimed.result_id)


def budget(amounts: Mapping[str, Any] | None) -> dict[str, Decimal]:
    """Returns amounts by currency as the SDK has them."""
    return {currency: Decimal(str(amount)) for currency, amount in (amounts or {}).items()}


def credential(found: answers.Credential) -> Credential:
    """Returns a credential that the server has provisioned as the SDK has it."""
    limits = found.constraints
    constraints = None
    if limits is not None:
        constraints = CredentialConstraints(
            cost_budget=tuple(limits.get("cost.budget") or ()),
            model_use=tuple(limits.get("model.use") or ()),
            expires_at=limits.get("expires_at"),
        )
    return Credential(found.id, found.scheme, found.value, found.endpoint, found.profile, constraints)


def context(runtime: sdk.ARCPRuntime, claimed: Claimed, home: asyncio.AbstractEventLoop) -> JobContext:
    """Returns the context of a claimed job."""
    told = claimed.claimed
    state = SessionState(
        # The server tells workers who submitted a job, and not in which session.
        session_id="",
        resume_token="",
        principal=told.principal,
        negotiated_features=tuple(runtime.capabilities.features),
        heartbeat_interval_sec=runtime.heartbeat_interval_sec,
        resume_window_sec=runtime.resume_window_sec,
        accepted_at=datetime.now(timezone.utc),
    )
    nobody, _ = arcp.pair_memory_transports()
    identity = Identity(principal=told.principal)
    name, _, version = told.agent.partition("@")
    granted: dict[str, Decimal] = {}
    # The server takes more words for currencies than the SDK.
    with contextlib.suppress(ValueError):
        granted = sdk.initial_budget_from_lease(dict(told.lease))
    ends = told.lease_constraints.expires_at if told.lease_constraints else None
    job = Job(
        job_id=told.job_id,
        session=Session(transport=nobody, state=state, send_queue=asyncio.Queue(), identity=identity),
        agent=name,
        agent_version=None if version == UNVERSIONED else version,
        lease=dict(told.lease),
        lease_constraints=LeaseConstraints(expires_at=ends) if ends else None,
        budget=budget(told.budget),
        initial_budget=granted,
        parent_job_id=told.parent_job_id,
        delegate_id=told.delegate_id,
        trace_id=told.trace_id,
        submitter_principal=told.principal,
        credentials=tuple(credential(one) for one in told.credentials),
        state="running",
        reports=Reports(claimed, home),
    )
    cap = min(runtime.chunk_size_cap, CHUNK_BYTES)
    logger = runtime.logger.bind(job_id=told.job_id) if hasattr(runtime.logger, "bind") else runtime.logger
    return JobContext(job=job, runtime=runtime, signal=asyncio.Event(), logger=logger, chunk_size_cap=cap)


class Running:
    """An agent that works on a job in the event loop of its program."""

    def __init__(self, agent: Agent, context: JobContext, loop: asyncio.AbstractEventLoop) -> None:
        self._agent, self._context, self._loop = agent, context, loop
        self._home = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._called())
        self._task.add_done_callback(lambda _: _soon(self._home, self._ended.set))

    async def _called(self) -> Any:
        return await self._agent(self._context.job.reports.claimed.input, self._context)

    def _cancel(self) -> None:
        self._context.signal.set()
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> Any:
        """Waits for the agent's end, and returns its result; if this is cancelled, so is the agent, and it has some time to clean up."""
        _soon(self._loop, self._begin)
        try:
            while not self._ended.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), 1)
                if self._loop.is_closed():
                    break
        except asyncio.CancelledError:
            _soon(self._loop, self._cancel)
            with contextlib.suppress(asyncio.TimeoutError, EntenteError):
                async with asyncio.timeout(CLEANUP):
                    if not self._loop.is_closed():
                        await self._ended.wait()
                    await self._context.job.reports.empty()
            raise
        return await self._outcome()

    async def _outcome(self) -> Any:
        task = self._task
        if task is None or not task.done():
            raise ProgramEnded
        if not task.cancelled():
            error = task.exception()
            if error is None:
                await self._stored()
                return _result(task.result())
            if isinstance(error, Exception):
                with contextlib.suppress(EntenteError):
                    await self._context.job.reports.empty()
                raise failure(error)
            raise ProgramEnded
        if self._context.job.reports.claimed.cancelled:
            raise asyncio.CancelledError
        # Nobody has asked for it: `asyncio.run` cancels what is left when its program ends, or the agent has cancelled itself.
        await asyncio.sleep(ENDING)
        if not self._loop.is_running():
            raise ProgramEnded
        raise JobCancelledError("the agent cancelled itself")

    async def _stored(self) -> None:
        try:
            await self._context.job.reports.empty()
        except ApiError as error:
            found = refused(error)
            raise (failure(found) if isinstance(found, Exception) else asyncio.CancelledError) from error


def _result(found: Any) -> Any:
    try:
        return jsonable(found)[0]
    except InvalidRequestError as unwritable:
        # The next attempt would do all of the work again, and end in the same way.
        raise failure(unwritable) from unwritable


def _soon(loop: asyncio.AbstractEventLoop, done: Callable[[], object]) -> None:
    """Calls a function in another thread's event loop, unless that has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(done)
