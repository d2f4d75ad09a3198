"""Values of any size in an agent's memory on the server: what frameworks keep between two runs of a program.

An entry of memory has up to 64 KiB, so a value is compressed, and a long one has parts. The oldest values leave by themselves when a
namespace has a thousand entries.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

from .._approvals import digest
from .._generated import operations as api
from .._generated.answers import MemoryEntry
from .._sync.client import Entente
from ..errors import ConflictError, NotFoundError

# Characters of base64 in one entry.
PART = 48_000
PAGE = 100


class Store:
    """A namespace of the acting agent's memory."""

    def __init__(self, namespace: str, client: Entente | None = None) -> None:
        self.client = client or Entente()
        self.namespace = namespace

    def put(self, key: str, value: bytes, *, tags: list[str] | None = None, more: dict[str, Any] | None = None, replace: bool = True) -> bool:
        """Stores a value under a key, with further members beside it; returns whether it did, which without `replace` it does not if there
        is one already. A value that is replaced can be read until the moment when the new one can."""
        text = base64.b64encode(zlib.compress(value)).decode()
        parts, name = [text[at : at + PART] for at in range(0, len(text), PART)], digest(text)
        if len(parts) > 1 and not replace and self.find(key) is not None:
            return False
        for number, part in enumerate(parts[1:], 1):
            # One that is there already has the same content, which its name says: an attempt that was killed left it.
            self._create(_part(key, name, number), {"data": part})
        # The first entry comes last: a value that can be found is complete.
        return self._write(key, {"data": parts[0], "parts": len(parts), "digest": name, **(more or {})}, tags, replace)

    def _write(self, key: str, value: dict[str, Any], tags: list[str] | None, replace: bool) -> bool:
        while not self._create(key, value, tags):
            if not replace:
                return False
            found = self.find(key)
            if found is None:
                continue  # it was deleted meanwhile
            try:
                self.client.call(api.update_memory(found.id, {"value": value}, if_match=found.version))
            except NotFoundError:
                continue
            except ConflictError as refused:
                if refused.code != "version_conflict":
                    raise
                continue  # somebody else was faster
            if found.value.get("parts", 1) > 1 and found.value.get("digest") != value["digest"]:
                self.delete(_part(key, found.value.get("digest"), None))
            break
        return True

    def _create(self, key: str, value: dict[str, Any], tags: list[str] | None = None) -> bool:
        """Creates an entry; returns whether it did, which it does not if the key is taken. Every other refusal, as of a writer whose lease
        has ended, is raised."""
        try:
            self.client.call(
                api.create_memory({"namespace": self.namespace, "key": key, "value": value, "tags": tags or [], "memory_type": "episodic"})
            )
        except ConflictError as refused:
            if refused.code != "already_exists":
                raise
            return False
        return True

    def get(self, key: str) -> bytes | None:
        """Returns the value under a key."""
        found = self.find(key)
        while found is not None:
            try:
                return self.value(found)
            except KeyError:
                # Its parts leave when another value takes its place.
                again = self.find(key)
                if again is not None and again.version == found.version and again.id == found.id:
                    raise
                found = again
        return None

    def value(self, entry: MemoryEntry) -> bytes:
        """Returns the value that begins with this entry."""
        text = str(entry.value["data"])
        for number in range(1, entry.value["parts"]):
            part = self.find(_part(entry.key, entry.value["digest"], number))
            if part is None:
                raise KeyError(f"{entry.key} of {self.namespace} is no longer complete: its memory was evicted")
            text += part.value["data"]
        return zlib.decompress(base64.b64decode(text))

    def find(self, key: str) -> MemoryEntry | None:
        """Returns the first entry of a value."""
        found = self.client.call(api.list_memory(self.client.acting(), namespace=self.namespace, key=key, limit=1))
        return found[0] if found else None

    def entries(self, prefix: str = "", tags: str | None = None, limit: int | None = None) -> list[MemoryEntry]:
        """Returns the first entries of values, latest first."""
        found: list[MemoryEntry] = []
        while True:
            size = PAGE if limit is None else min(PAGE, limit)
            page = self.client.call(
                api.list_memory(
                    self.client.acting(), namespace=self.namespace, key_prefix=prefix or None, tags=tags, limit=size, offset=len(found)
                )
            )
            found += page
            if len(page) < size or (limit is not None and len(found) >= limit):
                return [one for one in found if "parts" in one.value]

    def delete(self, prefix: str = "") -> None:
        """Deletes all values whose keys begin so."""
        while found := self.client.call(
            api.list_memory(self.client.acting(), namespace=self.namespace, key_prefix=prefix or None, limit=PAGE)
        ):
            for one in found:
                try:
                    self.client.call(api.delete_memory(one.id))
                except NotFoundError:
                    pass


def _part(key: str, name: str | None, number: int | None) -> str:
    """Returns the key of a further part, or the beginning of those of all parts. Their content names them, so a value that replaces
    another does not touch its parts."""
    return f"{key}#{name}-{'' if number is None else number}"
