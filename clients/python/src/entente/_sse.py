"""Server-sent events, decoded from bytes as they come (WHATWG HTML §9.2.6), without input or output."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ._generated.answers import MessageBody


@dataclass(frozen=True)
class Event:
    """An event of a stream."""

    # Position behind the event: give it as `last_event_id` to go on after it, also in another process.
    id: str
    type: str
    data: Any
    # How many messages were evicted or expired before they could be sent, since the event before.
    missed: int = 0

    @property
    def message(self) -> MessageBody:
        """The message of a `channel_message`, which also names its `intent_id` and `channel_name`."""
        if not isinstance(self.data, dict) or "channel_id" not in self.data:
            raise TypeError(f"a {self.type} carries no message; read its `data`")
        return MessageBody(self.data)


@dataclass
class Frame:
    """What comes between two empty lines."""

    id: str | None = None
    event: str = "message"
    data: list[str] = field(default_factory=list)
    missed: int = 0


class Decoder:
    """Turns bytes into frames. Whatever is incomplete when a connection breaks comes again, so a decoder serves one connection."""

    def __init__(self) -> None:
        self._rest = b""
        self._frame = Frame()
        self._begun = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Returns the frames that these bytes complete, also those without an event."""
        # A line may end with CR LF, and the chunk between them.
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [frame for line in lines if (frame := self._line(line.rstrip(b"\r"))) is not None]

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            done, self._frame = self._frame, Frame()
            begun, self._begun = self._begun, False
            return done if begun else None
        self._begun = True
        name, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            self._frame.id = value
        elif name == "event":
            self._frame.event = value
        elif name == "data":
            self._frame.data.append(value)
        elif not name and value.startswith("missed "):
            self._frame.missed += _missed(value)
        return None


def _missed(comment: str) -> int:
    """Reads the comment of a channel's stream that tells how much is gone."""
    try:
        return int(json.loads(comment.removeprefix("missed "))["missed"])
    except (ValueError, KeyError, TypeError):
        return 0


def event(frame: Frame, missed: int, last: str) -> Event:
    """Returns the event of a frame that has one."""
    text = "\n".join(frame.data)
    try:
        data = json.loads(text)
    except ValueError:
        data = text
    return Event(frame.id if frame.id is not None else last, frame.event, data, missed)
