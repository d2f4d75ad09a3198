"""Mail in the asynchronous client: envelopes (AEE 1), signed if there is a key, through the mailbox gateway."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import Any, Literal

from .._generated import operations as api
from .._generated.answers import AnsweredEnvelope, MailboxPage, RegistrationBody
from .._generated.answers import Mailbox as MailboxState
from ..errors import ConflictError
from ..signing import SigningKey
from .streams import Stream
from .transport import Transport


class Mailbox:
    """The mailbox of an entity, and what it sends."""

    def __init__(self, transport: Transport, entity: str, key: SigningKey | None = None) -> None:
        self._transport = transport
        self.entity = entity
        self.key = key

    async def register_key(self) -> RegistrationBody:
        """Registers the public half of the signing key for the entity; again changes nothing. The server accepts it over TLS, or from its
        own machine."""
        if self.key is None:
            raise ValueError("give the mailbox a key: client.mailbox(entity, key=SigningKey.generate())")
        body: Any = {"entity": self.entity, "kid": self.key.kid, "algorithm": "ed25519", "public_key": self.key.public}
        return await self._transport.call(api.register_envelope_key(body))

    async def send(
        self,
        to: str,
        intent: str,
        payload: dict[str, Any],
        *,
        type: Literal["task", "result", "event", "error", "stream"] = "event",
        priority: Literal["low", "normal", "high", "urgent"] = "normal",
        corr: str | None = None,
        reply_to: str | None = None,
        requires: dict[str, Any] | None = None,
        id: str | None = None,
    ) -> AnsweredEnvelope:
        """Sends an envelope, once, and returns its receipt."""
        id = id or str(uuid.uuid4())
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        envelope: dict[str, Any] = {"v": "1", "id": id, "type": type, "from": self.entity, "to": to, "intent": intent, "ts": now}
        envelope |= {"corr": corr or id, "priority": priority, "payload": payload}
        if reply_to is not None:
            envelope["reply_to"] = reply_to
        if requires is not None:
            envelope["requires"] = requires
        return await self.put(envelope)

    async def put(self, envelope: dict[str, Any]) -> AnsweredEnvelope:
        """Signs an envelope of one's own making, if there is a key and no signature, and sends it."""
        if self.key is not None and "sig" not in envelope:
            envelope = {**envelope, "sig": self.key.sign(envelope)}
        try:
            return await self._transport.call(api.send_envelope(envelope).repeatable())  # type: ignore[arg-type]
        except ConflictError as twice:
            # A repetition of the same envelope is answered with the first receipt.
            if twice.code != "duplicate_id" or not twice.body.get("receipt"):
                raise
            return AnsweredEnvelope(twice.body["receipt"])

    async def read(self, *, after: int | None = None, wait: int = 0, limit: int | None = None) -> MailboxPage:
        """Returns the envelopes that are not acknowledged yet, or those after a number; waits up to 120 seconds for a first one. Its
        entries are `page["items"]`, or `page.items`."""
        return await self._transport.call(api.read_mailbox(self.entity, after=after, wait=wait or None, limit=limit))

    async def acknowledge(self, up_to: int) -> MailboxState:
        """Says that every envelope up to this number was dealt with."""
        return await self._transport.call(api.ack_mailbox(self.entity, {"up_to": up_to}).repeatable())

    def stream(self, last_event_id: str | None = None) -> Stream:
        """Returns the mailbox as a stream, from the first envelope that is not acknowledged."""
        return Stream(self._transport, api.follow_mailbox(entity=self.entity), last_event_id)
