"""The SDK's runtime over a server: its agents are a worker's, and the sessions that it accepts are relayed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import hmac
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from arcp import ARCPError, Capabilities, Envelope, InternalError, InvalidRequestError, RuntimeInfo, Transport, TransportClosed, UnauthenticatedError
from arcp import runtime as sdk
from arcp.runtime import (
    Agent,
    BearerVerifier,
    CredentialProvisioner,
    EventLog,
    JobAuthorizationPolicy,
    RevocationLog,
)

from .._async.jobs import Job as Claimed
from .._settings import Settings
from ..worker import Worker
from .jobs import UNVERSIONED, ProgramEnded, Running, context
from .relay import PATIENCE, Frame, Relay, Tokens, refusal

log = logging.getLogger("entente")

# Seconds in which a program registers its agents, so that the worker is registered once, with all of them.
SETTLING = 0.05
# Seconds for which agents may still end when the runtime is closed; then their jobs are handed back.
GRACE = 1.0
# Seconds for which a program that ends without closing its runtime waits for its jobs to be handed back.
LEAVING = 5.0
# Seconds for which a token vouches for a principal; a session that lasts longer is resumed with the next one.
VOUCHED = 24 * 60 * 60
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class ARCPRuntime(sdk.ARCPRuntime):
    """`arcp.runtime.ARCPRuntime`, whose jobs and sessions are kept by an Entente server.

    A registered agent is at once one of the server's: any client of the server may submit jobs for it, whether it has connected to this
    program or not. A job survives this program, and goes on in the next one, or in another that runs beside it; there the agent runs again
    from its input, and `ctx.progress_so_far` has what it stored with `ctx.checkpoint(...)`.

    What the server decides is set there, and not by arguments: intervals of heartbeats, the window to resume a session in, features,
    credentials, and who sees whose jobs.

    Args:
        base_url: Address of the server; defaults to ENTENTE_URL.
        api_key: Key of this program; defaults to ENTENTE_API_KEY.
        agent_id: Agent that this program acts as, if its key may act as several.
        token_secret: The server's ENTENTE_ARCP_TOKEN_SECRET, and that variable by default. With it the principal that `bearer` has found
            for a client is the one that the server knows. Without it the client's token must be a key of the server.

    All other arguments are those of the SDK.
    """

    def __init__(
        self,
        *,
        runtime: RuntimeInfo,
        bearer: BearerVerifier,
        capabilities: Capabilities | None = None,
        heartbeat_interval_sec: int | None = 30,
        resume_window_sec: int = 600,
        idempotency_ttl_sec: float = 24 * 60 * 60,
        max_concurrent_jobs: int = 100,
        chunk_size_cap: int = 1024 * 1024,
        job_authorization_policy: JobAuthorizationPolicy | None = None,
        event_log: EventLog | None = None,
        credential_provisioner: CredentialProvisioner | None = None,
        revocation_log: RevocationLog | None = None,
        logger: Any = None,
        base_url: str | None = None,
        api_key: str | None = None,
        agent_id: str | None = None,
        token_secret: str | None = None,
    ) -> None:
        super().__init__(
            runtime=runtime,
            bearer=bearer,
            capabilities=capabilities,
            heartbeat_interval_sec=heartbeat_interval_sec,
            resume_window_sec=resume_window_sec,
            idempotency_ttl_sec=idempotency_ttl_sec,
            max_concurrent_jobs=max_concurrent_jobs,
            chunk_size_cap=chunk_size_cap,
            job_authorization_policy=job_authorization_policy,
            event_log=event_log,
            credential_provisioner=credential_provisioner,
            revocation_log=revocation_log,
            logger=logger,
        )
        self._settings = Settings.of(base_url, api_key, agent_id, PATIENCE, 30.0)
        self._secret = token_secret or os.environ.get("ENTENTE_ARCP_TOKEN_SECRET", "")
        for unused, setting in [
            (job_authorization_policy, "job_authorization_policy: the server's ENTENTE_ARCP_OPEN_POLICY decides who sees whose jobs"),
            (credential_provisioner, "credential_provisioner: the server provisions credentials, see ENTENTE_CREDENTIALS"),
            (event_log, "event_log: the server keeps the events"),
        ]:
            if unused is not None:
                log.warning("unused argument %s", setting)
        self._functions: dict[str, Agent] = {}
        self._tokens = Tokens()
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._ending = False
        # The event loop of the agents.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._note_loop()

    # Agents

    def register_agent(self, name: str, fn: Agent) -> Self:
        """Registers an agent without a version."""
        self._check(name)
        super().register_agent(name, fn)
        self._functions[f"{name}@{UNVERSIONED}"] = fn
        self._publish(name)
        return self

    def register_agent_version(self, name: str, version: str, fn: Agent) -> Self:
        """Registers a version of an agent."""
        self._check(name)
        super().register_agent_version(name, version, fn)
        self._functions[f"{name}@{version}"] = fn
        self._publish(name)
        return self

    def set_default_agent_version(self, name: str, version: str) -> Self:
        """Chooses the version that a job without one is for; the program that says so last decides."""
        super().set_default_agent_version(name, version)
        self._publish(name)
        return self

    def _check(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise InvalidRequestError(f"The server's agents have names of small letters, digits, `.`, `_` and `-`, unlike {name!r}.")

    def _publish(self, name: str) -> None:
        """Tells the worker of the versions of an agent."""
        self._note_loop()
        if self._ending:
            raise InvalidRequestError("The runtime is closed.")
        known = next(one for one in self.agent_inventory() if one.name == name)
        for version in known.versions or (UNVERSIONED,):
            self._take(f"{name}@{version}", version == known.default or not known.versions)

    def _take(self, agent: str, default: bool) -> None:
        if self._worker is None:
            name = f"{self.runtime_info.name} ({os.getpid()})"
            self._worker = Worker(self._settings, agent, self._work, concurrency=self.max_concurrent_jobs, name=name, grace=GRACE)
            self._thread = threading.Thread(target=self._serve, args=[self._worker], name="entente-worker", daemon=True)
            self._thread.start()
            atexit.register(self._leave)
            _end_in_order()
        self._worker.add(agent, {"default": True} if default else {})

    # The worker, in a thread with an event loop of its own

    def _serve(self, worker: Worker) -> None:
        async def serve() -> None:
            await asyncio.sleep(SETTLING)
            if not self._ending:
                await worker.serve()

        try:
            asyncio.run(serve())
        except Exception as wrong:
            log.error("the agents %s take no more jobs: %s", ", ".join(worker.agents), wrong)

    async def _work(self, job: Claimed) -> Any:
        agent = self._functions[job.claimed.agent]
        loop = self._agents_loop()
        try:
            return await Running(agent, context(self, job, asyncio.get_running_loop()), loop).end()
        except ProgramEnded:
            await job.release("the program ends")
            if self._worker is not None:
                self._worker.stop()
            raise asyncio.CancelledError from None

    def _note_loop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def _agents_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the event loop in which the program has registered agents or accepted a session; one of the runtime's own if in none."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="entente-agents", daemon=True).start()
        return self._loop

    async def close(self) -> None:
        """Hands the jobs back to the server, which gives them to another program, or to the next."""
        self._ending = True
        while self._thread is not None and self._thread.is_alive():
            # Repeated, because it may only just begin.
            if self._worker is not None:
                self._worker.stop()
            await asyncio.sleep(0.01)
        atexit.unregister(self._leave)
        await super().close()

    def _leave(self) -> None:
        """Hands the jobs back when a program ends that did not close its runtime."""
        self._ending = True
        end = time.monotonic() + LEAVING
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < end:
            if self._worker is not None:
                self._worker.stop()
            self._thread.join(0.01)

    # Sessions

    async def accept(self, transport: Transport) -> None:
        """Relays the session of a client that has connected to this program; returns when it ends."""
        self._note_loop()
        try:
            hello, token = await self._greeted(transport)
        except TransportClosed:
            return
        except Exception as wrong:
            error = wrong if isinstance(wrong, ARCPError) else InternalError(str(wrong))
            with contextlib.suppress(TransportClosed):
                await transport.send(refusal(error))
            await transport.close()
            return
        url = "ws" + self._settings.base_url.removeprefix("http") + "/arcp"
        await Relay(transport, url, hello, token, self._tokens).run()

    async def _greeted(self, transport: Transport) -> tuple[Frame, Callable[[], str]]:
        """Returns a client's first frame, and what makes the tokens with which the server knows the client."""
        frame = await transport.recv()
        if Envelope.from_wire(frame).type != "session.hello":
            raise InvalidRequestError(f"expected session.hello as first envelope, got {frame.get('type')!r}")
        auth = frame["payload"].get("auth") or {}
        token = str(auth.get("token") or "")
        try:
            identity = await self.bearer.verify(token)
        except ValueError as malformed:
            # Of a token that it cannot even read; the SDK's runtime calls that its own fault.
            raise UnauthenticatedError(f"The token is malformed: {malformed}") from malformed
        # A client that finds the program listening expects its agents there.
        end = time.monotonic() + PATIENCE
        while self._worker is not None and not self._worker.registered.is_set() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return frame, (lambda: vouched(identity.principal, self._secret)) if self._secret else (lambda: token)


def _end_in_order() -> None:
    """Lets SIGTERM end the program as `sys.exit` does, so that its jobs are handed back, unless the program has a way of its own."""
    # Only the main thread may say so.
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def vouched(principal: str, secret: str) -> str:
    """Returns a token that vouches for a principal (ARCP-W-10.12)."""
    said = f"{principal}.{int(time.time()) + VOUCHED}"
    return f"{said}.{hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()}"
