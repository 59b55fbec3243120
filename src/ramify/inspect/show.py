"""Stored bytes as something to look at: arguments, keys, results. It needs no user code and never raises.

Nothing is turned into an object of the user's: JSON becomes plain lists, dicts, numbers and text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ramify.inspect.words import took
from ramify.model.codec.escape import MARK, unescaped
from ramify.model.decision import in_words
from ramify.model.event import Event, Status
from ramify.model.gate import GATE
from ramify.model.outcome import Failure
from ramify.model.task import is_own


def tree_of(raw: bytes | None) -> object:
    """Stored arguments or a stored result as plain values; text when the bytes are not in a form of ours."""
    if raw is None:
        return None
    try:
        return unescaped(raw) if raw.startswith(MARK) else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, KeyError, ValueError):
        return raw.decode("utf-8", "backslashreplace")


def call_text(kind: str, body: bytes) -> str:
    """A call as one writes it: `measure("/usr")`."""
    tree = tree_of(body)
    match tree:
        case [{"name": str() as name, **_rest}] if kind == GATE:
            # What it asks for is told elsewhere, and is long.
            return f"gate({value_text(name)})"
        case list():
            # Of a task of ours: the calls that it makes are long, and no arguments of its own.
            inside = ", ".join("…" if is_own(kind) and _has_calls(part) else value_text(part) for part in tree)
        case dict():
            inside = ", ".join(f"{name}={value_text(part)}" for name, part in tree.items())
        case _:
            inside = value_text(tree)
    return f"{kind}({inside})"


def _has_calls(part: object) -> bool:
    parts = part if isinstance(part, list) else [part]
    return any(isinstance(each, dict) and "call" in each for each in parts)


def value_text(tree: object) -> str:
    """A plain value as JSON, with readable letters."""
    return json.dumps(tree, ensure_ascii=False, default=str)


def key_text(key: bytes | None) -> str | None:
    """A key as it was given; file names that are not UTF-8 keep their lone surrogates."""
    if key is None:
        return None
    try:
        return key.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return key.decode("utf-8", "backslashreplace")


def because(raw: bytes | None) -> str:
    """Return who wanted an event and why, as it was left in its value, to be put behind what happened."""
    tree = tree_of(raw)
    if not isinstance(tree, dict):
        return "" if tree is None else f": {value_text(tree)}"
    by, reason = (str(tree.get(name, "")) for name in ("by", "reason"))
    if isinstance(seconds := tree.get("seconds"), float):
        return f" for {seconds:,.3g} s"
    return in_words(by, reason) or f": {value_text(tree)}"


def failure_text(failure: Failure) -> str:
    """An error in one line, the way Python says it; what a class of ours is called says nothing to people."""
    name = "" if failure.text and failure.type.startswith("ramify.") else failure.type
    return ": ".join(part for part in (name, failure.text) if part) or "no error was recorded"


def traceback_of(event: Event) -> str:
    """Return the whole traceback of an attempt that failed; "" for other events."""
    return Failure.decode(event.value).traceback if event.status in (Status.FAILED, Status.RETRYING) else ""


def event_text(event: Event, attempt: int, earlier: Sequence[Event] = ()) -> str:
    """One event in words; `attempt` is the number of the attempt that it tells about, `earlier` the task's events
    before it.
    """
    result = f": {value_text(tree_of(event.value))}" if event.value else ""
    after = "" if event.took is None else f" after {took(event.took)}"
    match event.status:
        case Status.DONE if _is_given(event, earlier):
            return f"counts as done{result}"
        case Status.DONE:
            return f"attempt {attempt} was done{after}{result}"
        case Status.FAILED:
            return f"attempt {attempt} failed{after}, and it was the last: {failure_text(Failure.decode(event.value))}"
        case Status.RETRYING:
            return f"attempt {attempt} failed{after}, to be tried again: {failure_text(Failure.decode(event.value))}"
        case Status.DEFERRED:
            return f"attempt {attempt} put itself off{after}" + because(event.value)
        case Status.CANCELLED:
            return "cancelled" + because(event.value)
        case Status.SKIPPED:
            return "skipped" + because(event.value)
        case Status.QUARANTINED:
            return f"quarantined: {failure_text(Failure.decode(event.value))}"
        case Status.REOPENED:
            return "opened again" + because(event.value)
        case Status.DECIDED:
            return "decided" + because(event.value)
        case Status.REPLACED:
            return "replaced: what made it makes others in its stead"
        case Status.OUTRUN:
            return "came too late with a value of the context" + _outrun(event.value)


def _is_given(done: Event, earlier: Sequence[Event]) -> bool:
    """Return whether a result was given by hand: decided with the end itself, or before the task could be tried in its
    life. A holder that was told of a result may have come to its own first.
    """
    match earlier[-2:]:
        case [*before, decided] if decided.status is Status.DECIDED:
            opened = [event.seq for event in before if event.status is Status.REOPENED]
            return decided.seq in (done.seq, *opened)
        case _:
            return False


def _outrun(raw: bytes | None) -> str:
    tree = tree_of(raw)
    if not isinstance(tree, dict):
        return ""
    return f": task {tree.get('first')} had set {value_text(tree.get('name'))} before"
