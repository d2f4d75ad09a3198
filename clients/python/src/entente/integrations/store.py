"""Values of any size in an agent's memory on the server: what frameworks keep between two runs of a program.

An entry of memory has up to 64 KiB, so a value is compressed, and a long one has parts. The oldest values leave by themselves when a
namespace has a thousand entries.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

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
        is one already."""
        text = base64.b64encode(zlib.compress(value)).decode()
        parts = [text[at : at + PART] for at in range(0, len(text), PART)]
        # The first part comes last: a value that can be found is complete.
        for number, part in reversed(list(enumerate(parts))):
            members = {"data": part, "parts": len(parts), **(more or {})} if number == 0 else {"data": part}
            if not self._write(f"{key}#{number}" if number else key, members, tags if number == 0 else None, replace):
                return False
        return True

    def _write(self, key: str, value: dict[str, Any], tags: list[str] | None, replace: bool) -> bool:
        while True:
            try:
                self.client.call(
                    api.create_memory(
                        {"namespace": self.namespace, "key": key, "value": value, "tags": tags or [], "memory_type": "episodic"}
                    )
                )
                return True
            except ConflictError:
                if not replace:
                    return False
            found = self.find(key)
            if found is not None:
                try:
                    self.client.call(api.update_memory(found.id, {"value": value}, if_match=found.version))
                    return True
                except (ConflictError, NotFoundError):
                    continue  # somebody else was faster

    def get(self, key: str) -> bytes | None:
        """Returns the value under a key."""
        found = self.find(key)
        return None if found is None else self.value(found)

    def value(self, entry: MemoryEntry) -> bytes:
        """Returns the value that begins with this entry."""
        text = str(entry.value["data"])
        for number in range(1, entry.value["parts"]):
            part = self.find(f"{entry.key}#{number}")
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
