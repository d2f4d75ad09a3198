"""Leases and claims of tasks in the asynchronous client: held while a block runs, and named by every write of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._generated import operations as api
from .._generated.answers import Lease, TaskBody
from .._generated.requests import TaskVerb
from .._request import Request
from ..errors import ApiError, ConflictError, ConnectionLostError, EntenteError, LeaseError, NotFoundError
from . import waiting
from .transport import Transport
from .waiting import Background

if TYPE_CHECKING:
    from .client import AsyncEntente

# The longest time in seconds that one request waits in a lease's queue.
LONGEST_WAIT = 25
# Seconds between two requests that the server does not queue: of the agent's other programs only one holds the lease.
PAUSE = 1.0


class HeldLease:
    """A lease: `async with client.lease(intent_id, "research") as held`, then write with `held.client`.

    Each write of `held.client` takes effect only while the lease is held (`Entente-Lease`): a program that was paused for too long changes
    nothing. While the block runs the lease is renewed in the background; its end releases it.
    """

    def __init__(
        self, transport: Transport, intent_id: str, body: Any, wait: float, renew: bool, under: Callable[[str], AsyncEntente]
    ) -> None:
        self._transport, self._intent_id, self._body, self._wait = transport, intent_id, body, wait
        self._under = under
        self._renews = Background(self._renew_once) if renew else None
        self._lease: Lease | None = None
        # Why the lease could not be renewed; None while it is held.
        self.lost: ApiError | None = None

    @property
    def lease(self) -> Lease:
        """The lease as the server last described it."""
        if self._lease is None:
            raise EntenteError("The lease is not held yet: enter it with `with`.")
        return self._lease

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every earlier holder."""
        return self.lease.fencing_token

    @property
    def client(self) -> AsyncEntente:
        """The client whose writes need the lease."""
        return self._under(f"{self.lease.id}; token={self.lease.fencing_token}")

    async def renew(self) -> Lease:
        """Extends the lease by its duration from now; LeaseError if it has ended."""
        request = api.renew_lease(self._intent_id, self.lease.id, {"duration_seconds": self._body["duration_seconds"]})
        self._lease = await self._transport.call(request.repeatable())
        return self._lease

    async def __aenter__(self) -> HeldLease:
        until = time.monotonic() + self._wait
        while True:
            left = until - time.monotonic()
            wait = min(LONGEST_WAIT, max(0, round(left)))
            asked = time.monotonic()
            try:
                self._lease = await self._transport.call(api.acquire_lease(self._intent_id, self._body, wait=wait or None))
                break
            except LeaseError:
                # The place in the queue is kept for some seconds.
                if until - time.monotonic() < 1:
                    raise
                if time.monotonic() - asked < PAUSE:
                    await waiting.sleep(PAUSE)
        if self._renews is not None:
            self._renews.start(self._body["duration_seconds"] / 3)
        return self

    async def _renew_once(self) -> float | None:
        try:
            await self.renew()
        except ConnectionLostError:
            return 1.0
        except ApiError as refused:
            if refused.status >= 500 or refused.status == 429:
                return 1.0
            self.lost = refused
            return None
        return float(self._body["duration_seconds"]) / 3

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._renews is not None:
            await self._renews.stop()
        try:
            await self._transport.call(api.release_lease(self._intent_id, self.lease.id))
        except (ConflictError, NotFoundError):
            pass  # it ended by itself
        except ConnectionLostError:
            if error is None:
                raise


class ClaimedTask:
    """A claim of a task: `async with client.claim_task(task_id) as claim`, then `await claim.complete(output)`.

    Each write of `claim.client` takes effect only while the claim holds (`Entente-Claim`). A block that ends by an exception fails the
    task; one that ends without a word hands it back.
    """

    def __init__(self, transport: Transport, task_id: str, agent_id: str | None, under: Callable[[str], AsyncEntente]) -> None:
        self._transport, self._task_id, self._agent_id = transport, task_id, agent_id
        self._under = under
        self._task: TaskBody | None = None
        self._over = False

    @property
    def task(self) -> TaskBody:
        """The task as the server last described it."""
        if self._task is None:
            raise EntenteError("The task is not claimed yet: enter the claim with `with`.")
        return self._task

    @property
    def client(self) -> AsyncEntente:
        """The client whose writes need the claim."""
        return self._under(f"{self._task_id}; token={self.task.claim_token}")

    def _verb(self, **members: Any) -> TaskVerb:
        body: dict[str, Any] = {name: value for name, value in members.items() if value is not None}
        if self._agent_id is not None:
            body["agent_id"] = self._agent_id
        if self._task is not None:
            body["claim_token"] = self._task.claim_token
        return body  # type: ignore[return-value]

    async def _do(self, request: Request[TaskBody], *reached: str) -> TaskBody:
        """Takes a step of the task. Of a lost answer the task itself tells whether it was taken."""
        try:
            found = await self._transport.call(request)
        except ConnectionLostError as lost:
            if not lost.may_have_happened:
                raise
            found = await self._transport.call(api.get_task(self._task_id))
            if found.status not in reached:
                found = await self._transport.call(request)
        if "running" in reached:
            self._task = found
        else:
            self._over = True  # the claim's token stays, so that its client is refused from now on
        return found

    async def start(self) -> TaskBody:
        """Says that the work has begun."""
        return await self._do(api.start_task(self._task_id, self._verb()), "running")

    async def progress(self, **fields: Any) -> TaskBody:
        """Reports progress in fields of one's own."""
        return await self._transport.call(api.report_task_progress(self._task_id, self._verb(**fields)))

    async def complete(self, output: dict[str, Any] | None = None, artifacts: list[Any] | None = None) -> TaskBody:
        """Ends the task with its result."""
        return await self._do(api.complete_task(self._task_id, self._verb(output=output, artifacts=artifacts)), "completed")

    async def fail(self, error: str) -> TaskBody:
        """Ends the attempt with an error; another one may follow."""
        return await self._do(api.fail_task(self._task_id, self._verb(error=error)), "failed", "ready", "pending")

    async def release(self, reason: str | None = None) -> TaskBody:
        """Hands the task back for another agent."""
        return await self._do(api.release_task(self._task_id, self._verb(reason=reason)), "ready", "pending")

    async def __aenter__(self) -> ClaimedTask:
        # A claim is not repeated: after a lost answer nobody could tell this claim from one of the agent's other program.
        self._task = await self._transport.call(api.claim_task(self._task_id, self._verb()))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._over:
            return
        try:
            if isinstance(error, Exception):
                await self.fail(f"{type(error).__name__}: {error}")
            else:
                await self.release()
        except (EntenteError, OSError):
            if error is None:
                raise
