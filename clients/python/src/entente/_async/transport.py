"""An asynchronous connection to the server: sends requests until they have an answer, and opens streams."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from .. import _retries
from .._generated import operations as api
from .._request import Answer, Request, text
from .._settings import Settings
from ..errors import ConnectionLostError, refusal
from . import waiting

T = TypeVar("T")
log = logging.getLogger("entente")


class Transport:
    """Sends requests."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self.settings = settings
        self.http = http
        # How far the server's clock is ahead of this machine's, in seconds; None until an answer has told.
        self._ahead: float | None = None
        # The requests whose answers somebody waits for, the latest 10,000: an agent's loop leaves those answers alone.
        self.asked: dict[str, None] = {}

    def under(self, **fences: str) -> Transport:
        """Returns the same connection, whose writes take effect only under these fences."""
        other = Transport(self.settings.under(**fences), self.http)
        other._ahead, other.asked = self._ahead, self.asked
        return other

    def awaits(self, request_id: str) -> None:
        """Remembers that the answers to a request are waited for."""
        self.asked[request_id] = None
        if len(self.asked) > 10_000:
            self.asked.pop(next(iter(self.asked)), None)

    async def now(self) -> float:
        """Returns the time by the server's clock, to the second."""
        if self._ahead is None:
            await self.call(api.whoami())
        return time.time() + (self._ahead or 0.0)

    async def call(self, request: Request[T]) -> T:
        """Sends a request, and returns what the answer contains."""
        return (await self.send(request)).value

    async def send(self, request: Request[T], patience: float | None = None) -> Answer[T]:
        """Sends a request, and returns the answer. While the server is away the request is repeated, with the same idempotency key, if it
        then still happens once; otherwise it is an error that says so."""
        request = request.prepared()
        until = time.monotonic() + (self.settings.patience if patience is None else patience)
        attempt = 0
        while True:
            try:
                response = await self._once(request)
            except httpx.TransportError as broken:
                # What could not be connected was not sent.
                sent = not isinstance(broken, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol))
                pause = _retries.pause(attempt, None, until - time.monotonic())
                if pause is None or (sent and not request.may_repeat):
                    raise ConnectionLostError(request.operation, broken, sent) from broken
            else:
                if response.is_success:
                    return Answer(request.decode(_content(response)), response.status_code, response.headers)
                asked = _retries.retry_after(response.headers)
                pause = _retries.pause(attempt, asked, until - time.monotonic())
                if pause is None or not _retries.passing(response.status_code, request.may_repeat):
                    raise refusal(response.status_code, _content(response), asked)
            attempt += 1
            if attempt == 8:
                log.warning("%s has failed %d times; it is repeated", request.operation, attempt)
            await waiting.sleep(pause)

    async def _once(self, request: Request[Any]) -> httpx.Response:
        waiting.note(self.http)
        response = await self.http.request(
            request.method,
            self.settings.base_url + request.path,
            params=request.parameters(),
            content=request.content(),
            headers=self._headers(request),
            timeout=httpx.Timeout(self.settings.timeout, read=self.settings.timeout + request.waits),
        )
        self._set_clock(response)
        return response

    def _headers(self, request: Request[Any]) -> dict[str, str]:
        found = self.settings.headers(request.method)
        found["Accept"] = request.accept
        if request.method != "GET":
            found["Content-Type"] = request.media
        return found | {name: text(value) for name, value in request.headers.items() if value is not None}

    def _set_clock(self, response: httpx.Response) -> None:
        # What a proxy writes there need not be a date.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            told = response.headers["date"]
            self._ahead = parsedate_to_datetime(told).timestamp() - time.time()

    async def open(self, request: Request[Any], quiet: float) -> httpx.Response:
        """Opens a stream, once. `quiet` is the longest silence in seconds after which the connection counts as dead."""
        waiting.note(self.http)
        built = self.http.build_request(
            request.method,
            self.settings.base_url + request.path,
            params=request.parameters(),
            headers=self._headers(request),
            timeout=httpx.Timeout(self.settings.timeout, read=quiet),
        )
        response = await self.http.send(built, stream=True)
        if not response.is_success:
            try:
                await response.aread()
            finally:
                await response.aclose()
            raise refusal(response.status_code, _content(response), _retries.retry_after(response.headers))
        self._set_clock(response)
        return response


def _content(response: httpx.Response) -> Any:
    """Returns an answer's content: JSON, or bytes."""
    if not response.content:
        return {} if response.is_error else None
    kind = response.headers.get("content-type", "")
    if "json" not in kind or "ndjson" in kind:
        return response.text if response.is_error else response.content
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text
