"""Stored bytes as something to look at: arguments, keys, results. It needs no user code and never raises.

Nothing is turned into an object of the user's: JSON becomes plain lists, dicts, numbers and text.
"""

from __future__ import annotations

import json

import msgspec

from ramify.model.codec.escape import MARK, unescaped
from ramify.model.event import Event, Status
from ramify.model.outcome import Failure


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
        case list():
            inside = ", ".join(value_text(part) for part in tree)
        case dict():
            inside = ", ".join(f"{name}={value_text(part)}" for name, part in tree.items())
        case _:
            inside = value_text(tree)
    return f"{kind}({inside})"


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


def reason_text(raw: bytes | None) -> str:
    """The reason that a cancel, a skip or a reopening left in its event; empty when none was given."""
    tree = tree_of(raw)
    if isinstance(tree, dict) and isinstance(reason := tree.get("reason"), str):
        return reason
    return "" if tree is None else value_text(tree)


def failure_text(failure: Failure) -> str:
    """An error in one line, the way Python says it."""
    return ": ".join(part for part in (failure.type, failure.text) if part) or "no error was recorded"


def event_text(event: Event, attempt: int) -> str:
    """One event in words; `attempt` is the number of the attempt that it tells about."""
    match event.status:
        case Status.DONE:
            return f"attempt {attempt} was done" + (f": {value_text(tree_of(event.value))}" if event.value else "")
        case Status.FAILED:
            return f"attempt {attempt} failed, and it was the last: {failure_text(Failure.decode(event.value))}"
        case Status.RETRYING:
            return f"attempt {attempt} failed, to be tried again: {failure_text(Failure.decode(event.value))}"
        case Status.DEFERRED:
            return f"attempt {attempt} put itself off" + _because(event.value)
        case Status.CANCELLED:
            return "cancelled" + _because(event.value)
        case Status.SKIPPED:
            return "skipped" + _because(event.value)
        case Status.QUARANTINED:
            return f"quarantined: {failure_text(Failure.decode(event.value))}"
        case Status.REOPENED:
            return "opened again" + _because(event.value)


def _because(raw: bytes | None) -> str:
    reason = reason_text(raw)
    return f": {reason}" if reason else ""
