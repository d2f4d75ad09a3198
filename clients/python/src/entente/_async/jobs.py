"""Jobs in the asynchronous client: the work that a worker's function was given, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from .._generated import operations as api
from .._generated.answers import CredentialRotated, JobBody, JobOperationAllowed, JobReported, JobSignal
from .._generated.requests import NewJobEvent
from .._jobs import JobState
from .._request import escaped
from ..errors import ClaimError, JobCancelledError, JobError
from .spending import Amount
from .streams import Stream
from .transport import Transport


class Job:
    """A job that this worker runs. Every report carries the claim's token, so nothing that a replaced worker says takes effect."""

    def __init__(self, transport: Transport, state: JobState) -> None:
        self._transport = transport
        self._state = state
        self.claimed = state.claimed
        self.id: str = state.claimed.job_id
        self.input: Any = state.claimed.input
        # What an earlier attempt stored last; None at the first attempt.
        self.progress_so_far: Any = state.claimed.checkpoint
        # The number of this attempt, from 1.
        self.attempt: int = state.claimed.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the job is to stop."""
        return self._state.stopping

    @property
    def signals(self) -> list[JobSignal]:
        """The signals that have reached the worker, in order."""
        return list(self._state.signals)

    @property
    def claim(self) -> str:
        """The claim, for `client.under(claim=job.claim)`: writes that take effect only while this worker has the job."""
        return f"{self.id}; token={self.claimed.claim_token}"

    def check(self) -> None:
        """Raises JobCancelledError if the job is to stop."""
        if self._state.stopping:
            raise JobCancelledError()

    def _body(self, **members: Any) -> Any:
        return {"claim_token": self.claimed.claim_token, **members}

    def _heard(self, said: JobReported) -> JobReported:
        if said.cancel_requested:
            self._state.cancelled = True
        return said

    async def event(self, kind: str, *, checkpoint: Any = None, **body: Any) -> JobReported:
        """Reports an event of ARCP §8.2, or `x-vendor.…`, once; with a checkpoint both are stored together."""
        self.check()
        return await self.report([{"kind": kind, "body": body}], checkpoint=checkpoint)

    async def report(self, events: list[NewJobEvent], *, checkpoint: Any = None) -> JobReported:
        """Reports events, up to 1,000: all of them, or none. A job that is to stop may still have something to say."""
        now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        keyed: list[NewJobEvent] = []
        for event in events:
            self._state.reported += 1
            # The server keeps the first of events with the same key.
            keyed.append({"ts": now, **event, "event_key": f"{self._state.prefix}-{self._state.reported}"})
        report = self._body(events=keyed)
        if checkpoint is not None:
            report["checkpoint"] = checkpoint
        try:
            return self._heard(await self._transport.call(api.report_job_events(self.id, report).repeatable()))
        except ClaimError:
            self._state.lost = True
            raise

    async def progress(self, current: float, total: float | None = None, **body: Any) -> JobReported:
        """Reports how far the work is."""
        return await self.event("progress", current=current, **({} if total is None else {"total": total}), **body)

    async def log(self, message: str, level: str = "info", **body: Any) -> JobReported:
        """Reports a line of text."""
        return await self.event("log", level=level, message=message, **body)

    async def metric(self, name: str, value: float, unit: str | None = None, **body: Any) -> JobReported:
        """Reports a value. One whose name begins with `cost.` is charged to the job's budget."""
        return await self.event("metric", name=name, value=value, **({} if unit is None else {"unit": unit}), **body)

    async def checkpoint(self, progress: Any) -> JobReported:
        """Stores how far the work is, any JSON of up to 100 KiB. The next attempt has it as `progress_so_far`."""
        self.check()
        return self._heard(await self._transport.call(api.store_job_checkpoint(self.id, self._body(checkpoint=progress))))

    async def authorize(
        self, capability: str, target: str, *, reserve: Mapping[str, Amount] | None = None, call_id: str | None = None
    ) -> JobOperationAllowed:
        """Asks whether the job's authority covers an operation, and reserves what it may cost. Refused with PERMISSION_DENIED or
        BUDGET_EXHAUSTED."""
        body = self._body(capability=capability, target=target)
        if reserve is not None:
            body["reserve"] = dict(reserve)
        if call_id is not None:
            body["call_id"] = call_id
        return await self._transport.call(api.authorize_operation(self.id, body))

    async def settle(self, reservation_id: str, cost: Mapping[str, Amount]) -> Any:
        """Charges what an operation has cost in place of what was reserved for it."""
        return await self._transport.call(api.settle_reservation(self.id, reservation_id, self._body(cost=dict(cost))).repeatable())

    async def rotate_credential(self, credential_id: str, value: str | None = None) -> CredentialRotated:
        """Replaces one of the job's credentials, by a value of this worker's or one of its provisioner's; the former value is revoked."""
        body = self._body() if value is None else self._body(value=value)
        return await self._transport.call(api.rotate_job_credential(self.id, credential_id, body))

    async def finish(self, result: Any = None, *, result_id: str | None = None, summary: str | None = None) -> JobReported:
        """Reports the result, or with `result_id` the end of the one that was streamed in `result_chunk` events. A worker does it with
        what its function returns, unless the function has done it."""
        body = self._body(result=result) if result_id is None else self._body(result_id=result_id)
        if summary is not None:
            body["summary"] = summary
        reported = await self._transport.call(api.report_job_result(self.id, body).repeatable())
        self._state.ended = True
        return reported

    async def fail(self, error: JobError) -> JobReported:
        """Reports a failure. A worker does it with what its function raises."""
        # Names of files, for one, may have half characters; the failure is told nevertheless.
        body = self._body(code=error.code, message=escaped(error.message))
        if error.retryable is not None:
            body["retryable"] = error.retryable
        if error.details is not None:
            body["details"] = error.details
        reported = await self._transport.call(api.report_job_error(self.id, body).repeatable())
        self._state.ended = True
        return reported

    async def release(self, reason: str | None = None) -> None:
        """Hands the job back; another worker may take it at once."""
        await self._transport.call(api.release_job(self.id, self._body(reason=reason)).repeatable())
        self._state.ended = True


async def wait_for_job(transport: Transport, job_id: str, each: Callable[[Any], Any] | None = None) -> JobBody:
    """Follows a job to its end, and returns it."""
    found = await transport.call(api.get_job(job_id))
    if found.status in ("pending", "running"):
        async with job_stream(transport, job_id) as stream:
            async for event in stream:
                if each is not None:
                    each(event.data)
        found = await transport.call(api.get_job(job_id))
    return found


def job_stream(transport: Transport, job_id: str, last_event_id: str | None = None) -> Stream:
    """Returns a job's events as a stream that ends with the job; from the beginning, or after an event."""
    request = replace(api.job_events(job_id), accept="text/event-stream")
    return Stream(transport, request, last_event_id, ends=True)


async def result_of(transport: Transport, found: JobBody) -> Any:
    """Returns the result of a job that has ended; raises JobError if it has none."""
    if found.status != "success":
        ended = found.terminal or {}
        told = ended.get("message") or f"the job {found.job_id} ended as {found.status}"
        raise JobError(str(told), str(ended.get("code") or "INTERNAL_ERROR"), retryable=ended.get("retryable"), details=ended)
    return await transport.call(api.get_job_result(found.job_id))
