"""Questions about calls of tools, and what their answers mean: no input or output, so both clients share it.

A person approves a call, edits its arguments (an answer in their own words that is a JSON object), rejects it, answers in other words, or
refuses the question. Only the first two run it: neither words nor silence approve anything.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._generated.answers import Moment
from ._request import escaped
from ._settings import Settings

# Bytes of a text of a question, of a stem, and of an option's label that are surely taken (binding moment §4: 2 KiB).
TEXT_BYTES = 1_900
STEM_BYTES = 600
# The options of the question about a call.
RUN, LEAVE = 0, 1


@dataclass(frozen=True)
class Call:
    """A call of a tool that a person has to approve. `id` is the call's own, if it is the same after a restart of the program; without
    one the call is found again by its name and arguments."""

    tool: str
    arguments: Mapping[str, Any]
    id: str | None = None
    description: str = ""

    @property
    def text(self) -> str:
        """The arguments as JSON, always in the same order."""
        return plain(self.arguments)


@dataclass(frozen=True)
class Verdict:
    """What a person has decided on a call. `kind` is `approve`, `edit`, `reject`, `answer` (their own words), `refuse` (the question is the
    wrong one) or `ended` (nobody answered in time, or it was withdrawn)."""

    kind: str
    # What to run the call with; its own arguments unless they were edited.
    arguments: dict[str, Any]
    # Why it does not run, for the model.
    message: str = ""
    moment: Moment | None = None

    @property
    def approved(self) -> bool:
        """Whether the call may run."""
        return self.kind in ("approve", "edit")


@dataclass(frozen=True)
class Asking:
    """Whom to ask, for which run, and how."""

    settings: Settings
    principal_id: str
    run: str
    options: Mapping[str, Any] = field(default_factory=dict)
    question: Callable[[Call], dict[str, Any]] | None = None
    # The client whose connections it may use, of either flavour.
    client: Any = None

    def key(self, call: str) -> str:
        """Returns the name of a question of this run, which is the same in every process."""
        parts = [self.settings.agent_id or "", self.principal_id, self.run, call]
        return "entente-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def named(self, call: Call) -> str:
        """Returns the key of a call, by its id and by what it does: some models give the same ids in every turn."""
        return self.key(json.dumps([*([call.id] if call.id else []), call.tool, call.text]))


def plain(value: Any) -> str:
    """Returns a value as JSON, always in the same order; what JSON has no form for as Python writes it."""
    return escaped(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def digest(text: str) -> str:
    """Returns a short name of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def question(call: Call) -> dict[str, Any]:
    """Returns the question whether a call may run. It shows all of the arguments, in pieces if they are long: nobody approves what they
    have not seen."""
    shown = call.text
    if len(shown.encode()) > STEM_BYTES:
        # The stem tells one question from another; digits have no look-alikes.
        shown = f"the arguments above, number {int(hashlib.sha256(shown.encode()).hexdigest()[:12], 16)}"
    findings = [piece for name, value in call.arguments.items() for piece in fact(name, value)]
    return {
        "synopsis": f"Run {_short(call.tool)} once.",
        "findings": [*_split(call.description), *findings] or ["It takes no arguments."],
        "recommendations": ["Read the arguments, and let it run if they are right."],
        "offer": "Write a JSON object of arguments to run it with those in place of its own; other words go to the agent, and it does not run.",
        "question": {
            "stem": f"Should {_short(call.tool)} run with {shown}?",
            "options": [
                {"label": "Run it", "reasoning": "It runs once, with exactly these arguments."},
                {"label": "Leave it", "reasoning": "It does not run, and the agent is told so."},
            ],
            "recommended_idx": RUN,
        },
        "meta": {"decision_class": f"tool.{_short(call.tool)}"},
    }


def _short(name: str) -> str:
    name = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in escaped(name))
    return name if len(name.encode()) <= 150 else name[:60] + "…"


def fact(name: str, value: Any) -> Iterator[str]:
    """Returns the findings that show a value, all of it."""
    written = value if isinstance(value, str) else plain(value)
    pieces = _split(written)
    if len(pieces) < 2:
        yield f"{_short(name)}: {pieces[0] if pieces else '(empty)'}"
        return
    for number, piece in enumerate(pieces, 1):
        yield f"{_short(name)} ({number} of {len(pieces)}): {piece}"


def _split(text: str) -> list[str]:
    """Cuts a text into pieces that are taken."""
    text = escaped(text)
    if not text.strip():
        return [] if not text else [json.dumps(text)]
    size = TEXT_BYTES // max(len(one.encode()) for one in text)
    return [text[at : at + size] for at in range(0, len(text), size)]


def verdict(call: Call, moment: Moment) -> Verdict:
    """Returns what the end of a question means for its call."""
    own = dict(call.arguments)
    resolution = moment.resolution
    if resolution is None:
        how = "was withdrawn" if moment.state == "withdrawn" else "ended without an answer"
        return Verdict("ended", own, f"{call.tool} did not run: the question to {moment.principal_id} {how}.", moment)
    who = resolution.resolved_by
    if resolution.kind == "option":
        if resolution.option_idx == RUN:
            return Verdict("approve", own, moment=moment)
        return Verdict("reject", own, f"{call.tool} did not run: {who} said no.", moment)
    if resolution.kind == "free_text":
        words = resolution.answer
        if (edited := _object(words)) is not None:
            return Verdict("edit", own | edited, moment=moment)
        told = f" {words}" if words else " Their words are not kept any more."
        return Verdict("answer", own, f"{call.tool} did not run. {who} answered:{told}", moment)
    return Verdict("refuse", own, f"{call.tool} did not run. {who} refused the question: {resolution.objection or ''}", moment)


def open_question(stem: str, labels: Sequence[str], effect: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a question in free words, which a person answers with a label or in words of their own."""
    findings = [piece for name, value in (facts or {}).items() for piece in fact(name, value)]
    if len(stem.encode()) > STEM_BYTES:
        findings, stem = [*_split(stem), *findings], "What is the answer to this?"
    return {
        "synopsis": effect,
        "findings": findings or ["There is no more to it than the question."],
        "recommendations": ["Choose one, or write another answer."],
        "offer": "The run of the agent has the rest.",
        "question": {
            "stem": stem if stem.strip() else "What is the answer?",
            "options": [{"label": one, "reasoning": f"The answer is “{one}”."} for one in labels],
            "recommended_idx": 0,
        },
    }


def words(moment: Moment, question: Mapping[str, Any]) -> Any:
    """Returns what a person said to a question: a label or their own words, as a text; `{"refused": objection}`, or `{"ended": "expired"}`."""
    resolution = moment.resolution
    if resolution is None:
        return {"ended": moment.state}
    if resolution.kind == "dialogue":
        return {"refused": resolution.objection or ""}
    if resolution.option_idx is None:
        return resolution.answer or ""
    brief = moment.binding_moment
    # The server keeps its text for a day, and the number of the option.
    label = question["question"]["options"][resolution.option_idx]["label"] if brief is None else brief.question.options[resolution.option_idx].label
    return str(label)


def unasked(call: Call, reason: str) -> Verdict:
    """Returns the verdict on a call that the person may not be asked about now."""
    return Verdict("refuse", dict(call.arguments), f"{call.tool} did not run: {reason}")


def _object(words: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(words or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class Held:
    """The questions that calls of this process wait for: an equal call has a question of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    def take(self, moment_id: str) -> bool:
        """Takes a question, unless another call has it."""
        with self._lock:
            if moment_id in self._ids:
                return False
            self._ids.add(moment_id)
            return True

    def leave(self, moment_id: str) -> None:
        """Gives it back."""
        with self._lock:
            self._ids.discard(moment_id)


held = Held()


def fresh() -> str:
    """Returns the name of a run that no other process continues."""
    return uuid.uuid4().hex
