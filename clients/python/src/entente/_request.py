"""Requests as values: what to send, how to read the answer, and whether it may be sent again. Nothing here does input or output, so both
clients share it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote as _quote

from ._records import Record, members

T = TypeVar("T")
R = TypeVar("R", bound=Record)

KEY = "Idempotency-Key"
# Methods that mean the same however often they are sent (RFC 9110 §9.2.2).
_IDEMPOTENT = ("GET", "PUT", "DELETE")


class Frames:
    """The answer of an operation that is a stream; `client.follow` opens it."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request of one operation."""

    operation: str
    method: str
    path: str
    decode: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    # Whether the operation takes an idempotency key.
    keyed: bool = False
    # Whether the operation does the same when it is repeated, although it takes no key and its method does not promise it.
    repeats: bool = False
    accept: str = "application/json"

    def prepared(self) -> Request[T]:
        """Returns the request with its idempotency key, which stays the same however often it is sent."""
        if not self.keyed or self.headers.get(KEY):
            return self
        return replace(self, headers={**self.headers, KEY: uuid.uuid4().hex})

    def repeatable(self) -> Request[T]:
        """Returns the request as one that may be sent again although it has no idempotency key."""
        return replace(self, repeats=True)

    @property
    def may_repeat(self) -> bool:
        """Whether the request happens once even if it is sent again after its answer was lost."""
        if self.keyed or self.repeats:
            return True
        # With a version the second request would be refused because the first succeeded.
        return self.method in _IDEMPOTENT and not self.headers.get("If-Match")

    @property
    def waits(self) -> float:
        """For how many seconds the server may hold the request."""
        found = self.query.get("wait")
        if found is None and isinstance(self.body, Mapping):
            inbox = self.body.get("inbox")
            found = self.body.get("wait_sec") or (inbox.get("wait") if isinstance(inbox, Mapping) else None)
        return float(found or 0)

    @property
    def media(self) -> str:
        """The media type of the body: a text is lines of JSON, as of a bundle."""
        return "application/x-ndjson" if isinstance(self.body, str | bytes) else "application/json"

    def content(self) -> bytes | None:
        """Returns the bytes of the body."""
        if self.body is None:
            return b"{}" if self.method in ("POST", "PATCH") else None
        if isinstance(self.body, str | bytes):
            return self.body.encode() if isinstance(self.body, str) else self.body
        return encoded(self.body)

    def parameters(self) -> dict[str, str]:
        """Returns the parameters that were given, as text."""
        return {name: text(value) for name, value in self.query.items() if value is not None}


@dataclass(frozen=True)
class Answer(Generic[T]):
    """An answer with what its headers say."""

    value: T
    status: int
    headers: Mapping[str, str]

    @property
    def cursor(self) -> str | None:
        """The cursor that continues after a page of messages."""
        return self.headers.get("entente-next-cursor")

    @property
    def missed(self) -> int:
        """How many messages were evicted or expired before they were read."""
        return int(self.headers.get("entente-missed") or 0)

    @property
    def has_more(self) -> bool:
        """Whether a page of messages was cut off."""
        return self.headers.get("entente-has-more") == "true"


def encoded(value: Any) -> bytes:
    """Returns a value as requests carry it; raises TypeError or ValueError if JSON has no form for it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_encoded).encode()


def _encoded(value: Any) -> Any:
    if isinstance(value, Record):
        return members(value)
    raise TypeError(f"{type(value).__name__} is no JSON; give a dictionary, a list, a text, a number, a bool or None")


def text(value: Any) -> str:
    """Returns a parameter as the API reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(text(one) for one in value)
    return str(value)


def escaped(text: str) -> str:
    """Shows the escapes of what no text of the server may have: half characters, and NUL."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def quote(part: str) -> str:
    """Returns a segment of a path; no id and no name leaves it."""
    if part in ("", ".", ".."):
        raise ValueError(f"{part!r} is no id and no name")
    return _quote(part, safe="")


def list_of(cls: type[R]) -> Callable[[Any], list[R]]:
    """Returns what decodes a list of records."""
    return lambda value: [cls(one) for one in value]


def plain(value: Any) -> Any:
    """Decodes JSON of no declared form."""
    return value


def anything(value: Any) -> Any:
    """Decodes an answer that is JSON or not."""
    return value


def nothing(value: Any) -> None:
    """Decodes an answer without content."""


def frames(value: Any) -> Frames:
    """Refuses to decode a stream."""
    raise TypeError("this operation is a stream: open it with `client.follow(request)`")
