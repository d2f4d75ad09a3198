"""Answers as records: members are attributes, in the types that the generated classes declare.

A record keeps what the server sent, so members that this version does not know are there as `record["member"]`. An absent member that is
declared reads as None. Values of free form, such as payloads, stay plain dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

_KNOWN: dict[str, type[Record]] = {}


class Record:
    """An object of an answer."""

    __slots__ = ("_members",)
    _members: dict[str, Any]
    _declared: ClassVar[dict[str, str]] = {}

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    if not TYPE_CHECKING:  # so that a misspelt attribute is found before the program runs

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)  # of a record that is being copied, which has no members yet
            # A member may be called like a word of Python, and then has `_` at its end.
            member = name[:-1] if name.endswith("_") and name[:-1] in self._members else name
            if member not in self._members and name not in self._declared:
                raise AttributeError(f"{type(self).__name__} has no member {name!r}; it has {', '.join(self._members)}")
            return _read(self._members.get(member), self._declared.get(name, ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._members,)

    def __getitem__(self, member: str) -> Any:
        return self._members[member]

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __eq__(self, other: object) -> bool:
        return self._members == (other._members if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self._members, ensure_ascii=False)})"


R = TypeVar("R", bound=Record)


def record(cls: type[R]) -> type[R]:
    """Makes a class of answers known by its name, so that others may be made of it."""
    cls._declared = {name: str(written) for name, written in cls.__dict__.get("__annotations__", {}).items()}
    _KNOWN[cls.__name__] = cls
    return cls


def _read(value: Any, declared: str) -> Any:
    """Returns a member in its declared type. What has another form than declared is returned as it came."""
    declared = declared.removesuffix(" | None")
    if isinstance(value, dict):
        if declared in _KNOWN:
            return _KNOWN[declared](value)
        if declared.startswith("dict[str, "):
            return {name: _read(one, declared[10:-1]) for name, one in value.items()}
    elif isinstance(value, list) and declared.startswith("list["):
        return [_read(one, declared[5:-1]) for one in value]
    return value


def members(found: Record) -> dict[str, Any]:
    """Returns what a record was made of, as JSON has it."""
    return found._members
