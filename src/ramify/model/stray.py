"""Strays: values that stand where a call is needed, and calls where a value is, in the words of what to write instead.

The usual slip is `measure(path)` for `measure.of(path)`: it calls the function here and now, and what comes of that (a
result, a coroutine, a generator) is handed on in place of a call.

Does not refuse anything: whoever does adds what was tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ramify.model.codec.limits import shown


def instead_of_call(stray: object) -> str:
    """What was given where a call is needed, and what to write."""
    # A call is made with the codec, which asks in here why something cannot be stored.
    from ramify.model.call import OpenCall, ReferringCall

    if isinstance(stray, OpenCall):
        what = "pass a reference to it, or give it a default, `= Stream()`" if stray.references[0].stream else "pass it"
        return (
            f"{stray.kind} without its argument `{stray.lacks}`, which only a job before it supplies (`job.then(...)`, "
            f"`enqueue_many(then=...)`); {what}"
        )
    if isinstance(stray, ReferringCall):
        return (
            f"{stray.kind} with the {stray.references[0]!r}, which nothing here supplies: add the call to what makes "
            "such references, or let the task be a continuation, `spawn(*calls, then=...)`, that takes a Stream"
        )
    name = _called(stray)
    if name is not None:
        return f"{_kind(stray)}: {name}(...) calls the function here and now; write {name}.of(...)"
    if callable(getattr(stray, "of", None)):
        if (name := getattr(stray, "kind", None)) is None:
            return f"{stray!r} itself; write {getattr(stray, 'name', 'it')}.of(...) with its params"
        return f"the task {name} itself; write {name}.of(...) with its arguments"
    if isinstance(stray, list | tuple | set | frozenset) or inspect.isgenerator(stray):
        return f"{_kind(stray)}; give each call by itself (`yield from calls`, `spawn(*calls)`, `enqueue_many(calls)`)"
    if stray is None:
        return "None; give a call, such as task.of(...)"
    return f"{shown(stray)} ({_kind(stray)}); a call is made with task.of(...), and task(...) calls the function"


def instead_of_value(stray: object) -> str | None:
    """What was given where a value is needed, and what to write; None for what is no stray of ours."""
    # A call is made with the codec, which asks here why one cannot be stored.
    from ramify.model.call import Call

    if isinstance(stray, Call):
        return f"is a call of {stray.kind}, and a call is no value: yield it, or spawn() it, and it becomes a child"
    told: Callable[[Any], str] | None = getattr(type(stray), "_instead_of_value", None)
    if told is not None:
        return told(stray)
    name = _called(stray)
    if name is not None:
        what = "await it" if inspect.iscoroutine(stray) else "return what it yields, as a list"
        return f"is {_kind(stray)} of {name}(...), which has not run: {what}, or yield {name}.of(...) as a child"
    if inspect.isgenerator(stray):
        return "is a generator, which cannot be stored: return a list, or yield its calls with `yield from`"
    return None


def _called(value: Any) -> str | None:
    """The function that was called to make this coroutine or generator."""
    if not (inspect.iscoroutine(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)):
        return None
    return value.__name__ if value.__name__.isidentifier() else None


def _kind(value: object) -> str:
    name = type(value).__name__.replace("_", " ")
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
