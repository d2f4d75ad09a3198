"""A worker: takes jobs of agents and runs a function for each, asynchronous or not, on any number of jobs at once.

It survives restarts of the server: claims, heartbeats and reports are repeated until they are answered, and count once. A worker that is
stopped ends what it can within `grace` seconds, and hands back the rest, which another worker continues from the last checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import signal
import threading
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import httpx

from ._async.jobs import Job as AsyncJob
from ._async.transport import Transport as AsyncTransport
from ._generated import operations as api
from ._generated.answers import ClaimedJobs, WorkerDirectives
from ._generated.answers import Worker as Registered
from ._jobs import JobState
from ._settings import Settings, tls
from ._sync.jobs import Job
from ._sync.transport import Transport
from .errors import ApiError, ClaimError, ConflictError, ConnectionLostError, EntenteError, JobCancelledError, JobError, NotFoundError

if TYPE_CHECKING:
    from ._generated.requests import AgentVersionTerms, HeldBody

log = logging.getLogger("entente")

Handler = Callable[[AsyncJob], Awaitable[Any]] | Callable[[Job], Any]

# A worker waits for its server however long it is away.
FOR_EVER = float("inf")
# Seconds that one claim waits for a job. A worker that stops ends the wait.
CLAIM_WAIT = 20
# Most jobs of one claim.
CLAIMED_AT_ONCE = 100
# Seconds after which a claim or a heartbeat is tried again that was refused for a reason that may pass.
REST = 1.0


class Worker:
    """Runs jobs of an agent, or of several."""

    def __init__(
        self, settings: Settings, agent: str, handler: Handler, *, concurrency: int = 1, name: str | None = None, grace: float = 10.0
    ) -> None:
        if concurrency < 1:
            raise ValueError("a worker runs at least one job at once: concurrency=1")
        self._settings = replace(settings, patience=FOR_EVER)
        # The agents whose jobs it takes, each as `name@version` or by its name alone, with the terms to register a version on.
        self.agents: dict[str, AgentVersionTerms] = {agent: {}}
        # Whether the server knows of all of them.
        self.registered = threading.Event()
        self.name = name or f"{agent} ({os.getpid()})"
        self.concurrency = concurrency
        self.grace = grace
        self._handler = handler
        self._held: dict[str, tuple[JobState, asyncio.Task[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._worker: Registered | None = None
        # What the server has told the worker to do: `run`, `quiet` or `terminate`.
        self._directive: Any = "run"

    def run(self) -> None:
        """Serves until it is stopped, by `stop`, SIGINT or SIGTERM; for programs without an event loop."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            # Only the main thread hears signals.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.serve()

    def add(self, agent: str, terms: AgentVersionTerms | None = None) -> None:
        """Takes jobs of another agent too, or registers one on other terms; from any thread, also before it serves."""
        self.registered.clear()
        self.agents[agent] = terms or {}
        if self._loop is not None:
            # One that has ended takes no more jobs.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._added.set)

    def stop(self) -> None:
        """Stops it, from any thread. `serve` returns once the jobs have ended or are handed back."""
        if self._loop is not None and self._stopping is not None:
            # One that has ended needs no stop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def serve(self) -> None:
        """Serves until it is stopped."""
        self._loop, self._stopping, self._changed = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._added = asyncio.Event()
        async with httpx.AsyncClient(verify=tls(), limits=httpx.Limits(max_connections=None)) as http:
            self._transport = AsyncTransport(self._settings, http)
            with httpx.Client(verify=tls(), limits=httpx.Limits(max_connections=None)) as blocking:
                self._blocking = Transport(self._settings, blocking)
                self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="entente-job")
                try:
                    await self._serve()
                finally:
                    # A function that was handed back cannot be interrupted; its next report ends it.
                    self._threads.shutdown(wait=False)

    async def _serve(self) -> None:
        assert self._stopping is not None
        stopped = asyncio.create_task(self._stopping.wait())
        beats = asyncio.create_task(self._beat())
        claims = asyncio.create_task(self._claim())
        try:
            done, _ = await asyncio.wait({stopped, beats, claims}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()  # a refusal that no repetition changes ends the worker
        finally:
            self._stopping.set()
            await _cancelled(claims)
            await self._finish()
            await _cancelled(beats, stopped)

    async def _finish(self) -> None:
        """Lets the jobs end, hands back those that do not, and leaves; in all within twice `grace`, also if the server is away."""
        running = [task for _, task in self._held.values()]
        if running:
            await asyncio.wait(running, timeout=self.grace)
        leaving = AsyncTransport(replace(self._settings, patience=self.grace), self._transport.http)
        left = list(self._held.values())
        for state, _ in left:
            # What is done already is reported below, and not done again by another worker.
            state.lost = state.lost or state.outcome is None
        await _cancelled(*(task for _, task in left))
        with contextlib.suppress(EntenteError):
            await _handed_back([AsyncJob(leaving, state) for state, _ in left if not state.ended])
            if self._worker is not None:
                await leaving.call(api.worker_leave(self._worker.worker_id).repeatable())

    async def _register(self) -> Registered:
        """Registers the agents' versions, which workers and submitters name, and the worker."""
        self._added.clear()
        agents = dict(self.agents)
        for agent, terms in agents.items():
            name, _, version = agent.partition("@")
            if version:
                await self._transport.call(api.register_agent_version(name, version, terms))
        body: Any = {"name": self.name, "agents": list(agents), "slots": self.concurrency, "labels": {}}
        # Registered twice, the worker that nobody speaks for is swept.
        self._worker = await self._transport.call(api.register_worker(body).repeatable())
        if agents == self.agents:
            self.registered.set()
        return self._worker

    async def _claim(self) -> None:
        """Takes jobs while there are free places."""
        assert self._stopping is not None
        while not self._stopping.is_set():
            worker = await self._register() if self._worker is None or self._added.is_set() else self._worker
            free = self.concurrency - len(self._held)
            if free == 0 or self._directive != "run":
                running = [task for _, task in self._held.values()]
                if running:
                    await asyncio.wait(running, timeout=REST, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(REST)
                continue
            try:
                claimed = await self._claim_once(worker, free)
            except ApiError as refused:
                await self._refused(refused)
                continue
            for job in claimed.jobs:
                state = JobState(job)
                self._held[job.job_id] = (state, asyncio.create_task(self._work(state)))
                self._changed.set()

    async def _claim_once(self, worker: Registered, free: int) -> ClaimedJobs:
        """Waits for jobs, until there are some or the worker is to take those of another agent too."""
        # After a lost answer the same key returns the same jobs.
        body: Any = {"worker_id": worker.worker_id, "max": min(free, CLAIMED_AT_ONCE), "wait_sec": CLAIM_WAIT, "idempotency_key": uuid.uuid4().hex}
        claim = asyncio.create_task(self._transport.call(api.claim_jobs(body).repeatable()))
        added = asyncio.create_task(self._added.wait())
        try:
            await asyncio.wait({claim, added}, return_when=asyncio.FIRST_COMPLETED)
            if claim.done():
                return claim.result()
        finally:
            await _cancelled(claim, added)
        return await self._transport.call(api.claim_jobs(body | {"wait_sec": 0}).repeatable())

    async def _refused(self, refused: ApiError) -> None:
        """Rests after a refusal that may pass, and registers anew if the server took this worker for dead; any other ends the worker."""
        if isinstance(refused, (NotFoundError, ConflictError)):
            self._worker = None
        elif refused.status < 500:
            raise refused
        log.warning("worker %s: %s", self.name, refused)
        await asyncio.sleep(REST)

    async def _beat(self) -> None:
        """Extends the claims, and hears which jobs are to stop."""
        assert self._stopping is not None
        while True:
            worker = self._worker
            if worker is None:
                await asyncio.sleep(0.05)
                continue
            held: list[HeldBody] = [
                {
                    "job_id": state.claimed.job_id,
                    "claim_token": state.claimed.claim_token,
                    "stopping": state.stopping,
                    "signals_after": state.signals[-1].seq if state.signals else 0,
                }
                for state, _ in self._held.values()
                if not state.ended and not state.lost
            ]
            body: Any = {"state": "running", "jobs": held, "directive": self._directive, "wait_sec": max(1, worker.heartbeat_interval_sec - 1)}
            beat = asyncio.create_task(self._transport.call(api.worker_heartbeat(worker.worker_id, body).repeatable()))
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait({beat, changed}, return_when=asyncio.FIRST_COMPLETED)
                if beat.done():
                    self._hear(beat.result())
            except ApiError as refused:
                await self._refused(refused)
            finally:
                # A job that was taken meanwhile is named at once, so that its cancellation is heard at once.
                self._changed.clear()
                await _cancelled(beat, changed)

    def _hear(self, said: WorkerDirectives) -> None:
        assert self._stopping is not None
        self._directive = said.directive
        if said.directive == "terminate":
            self._stopping.set()
        for job_id, signals in (said.signals or {}).items():
            if job_id in self._held:
                state = self._held[job_id][0]
                known = state.signals[-1].seq if state.signals else 0
                state.signals += [one for one in signals if one.seq > known]
        for job_id, lost in [*((one, False) for one in said.cancel), *((one, True) for one in said.lost)]:
            if job_id in self._held:
                state, task = self._held[job_id]
                state.lost, state.cancelled = state.lost or lost, True
                # A function in a thread cannot be interrupted: it hears it at its next report, or by `job.cancelled`.
                if not state.interrupted and inspect.iscoroutinefunction(self._handler):
                    state.interrupted = True
                    task.cancel()

    async def _work(self, state: JobState) -> None:
        """Runs the function for one job, and reports how it ended."""
        job = AsyncJob(self._transport, state)
        try:
            try:
                outcome: Any = await self._handled(state)
            except asyncio.CancelledError:
                if not state.cancelled or state.lost:
                    return  # handed back, or somebody else's
                outcome = JobCancelledError("stopped as asked")
            except JobError as told:
                outcome = told
            except ClaimError:
                return
            except Exception as wrong:
                log.exception("job %s failed", state.claimed.job_id)
                outcome = JobError(f"{type(wrong).__name__}: {wrong}")
            if state.lost or state.ended:
                return
            state.outcome = (outcome,)
            with contextlib.suppress(ClaimError):
                await _reported(job, outcome)
        except (ApiError, ConnectionLostError) as refused:
            log.error("job %s could not be reported: %s", state.claimed.job_id, refused)
            with contextlib.suppress(EntenteError):
                await job.fail(JobError(f"the result was refused: {refused}", retryable=False))
        except (TypeError, ValueError, RecursionError) as unwritable:
            # The next attempt would do all of the work again, and end in the same way.
            reason = f"the result cannot be written as JSON: {type(unwritable).__name__}: {unwritable}"
            log.error("job %s: %s", state.claimed.job_id, reason)
            with contextlib.suppress(EntenteError):
                await job.fail(JobError(reason, retryable=False))
        finally:
            # A claim that was lost and taken again is another one's.
            if (held := self._held.get(state.claimed.job_id)) and held[0] is state:
                del self._held[state.claimed.job_id]

    async def _handled(self, state: JobState) -> Any:
        if inspect.iscoroutinefunction(self._handler):
            awaited = cast(Callable[[AsyncJob], Awaitable[Any]], self._handler)
            return await awaited(AsyncJob(self._transport, state))
        loop = asyncio.get_running_loop()
        blocking = cast(Callable[[Job], Any], self._handler)
        return await loop.run_in_executor(self._threads, blocking, Job(self._blocking, state))


async def _reported(job: AsyncJob, outcome: Any) -> None:
    """Reports how a job ended."""
    await (job.fail(outcome) if isinstance(outcome, JobError) else job.finish(outcome))


async def _handed_back(jobs: list[AsyncJob]) -> None:
    """Hands jobs back, or reports the outcome of those that are done. One that is somebody else's by now keeps back no other; raises
    ConnectionLostError if the server is away."""

    async def one(job: AsyncJob) -> None:
        done = job._state.outcome
        await (job.release("the worker stops") if done is None else _reported(job, done[0]))

    told = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
    for wrong in told:
        if wrong is not None and not isinstance(wrong, ApiError):
            raise wrong


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks, and waits for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
