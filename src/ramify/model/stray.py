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
    """Return what was given where a call is needed, and what to write."""
    # A call is made with the codec, which asks in here why something cannot be stored.
    from ramify.model.call import OpenCall, ReferringCall

    if isinstance(stray, OpenCall):
        what = "Pass a reference to it, give it a default `= Stream()`" if stray.references[0].stream else "Pass it"
        return (
            f"{stray.kind} without its argument `{stray.lacks}`. {what}, or let the call follow a job: "
            "`job.then(...)`, `enqueue_many(then=...)`"
        )
    if isinstance(stray, ReferringCall):
        return (
            f"{stray.kind} with the {stray.references[0]!r}, which is not known here. Add the call to the DAG of that "
            "node, or make the task a continuation that takes a Stream: `spawn(*calls, then=...)`"
        )
    name = _called(stray)
    if name is not None:
        return f"{_kind(stray)}: {name}(...) calls the function here and now. Write {name}.of(...)"
    if callable(getattr(stray, "of", None)):
        if (name := getattr(stray, "kind", None)) is None:
            return f"{stray!r} itself. Write {getattr(stray, 'name', 'it')}.of(...) with its params"
        return f"the task {name} itself. Write {name}.of(...) with its arguments"
    if isinstance(stray, list | tuple | set | frozenset) or inspect.isgenerator(stray):
        return f"{_kind(stray)}. Give each call by itself (`yield from calls`, `spawn(*calls)`, `enqueue_many(calls)`)"
    if stray is None:
        return "None. Give a call, such as task.of(...)"
    return f"{shown(stray)} ({_kind(stray)}). Make a call with task.of(...); task(...) calls the function"


def instead_of_value(stray: object) -> str | None:
    """Return what was given where a value is needed, and what to write; None for what is no stray of ours."""
    # A call is made with the codec, which asks here why one cannot be stored.
    from ramify.model.call import Call

    if isinstance(stray, Call):
        return f"is a call of {stray.kind}, not a value. Yield it or spawn() it to make it a child"
    told: Callable[[Any], str] | None = getattr(type(stray), "_instead_of_value", None)
    if told is not None:
        return told(stray)
    name = _called(stray)
    if name is not None:
        what = "Await it" if inspect.iscoroutine(stray) else "Return what it yields as a list"
        return f"is {_kind(stray)} of {name}(...) that has not run. {what}, or yield {name}.of(...) as a child"
    if inspect.isgenerator(stray):
        return "is a generator, which cannot be stored. Return a list, or yield its calls with `yield from`"
    return None


def _called(value: Any) -> str | None:
    """The function that was called to make this coroutine or generator."""
    if not (inspect.iscoroutine(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)):
        return None
    return value.__name__ if value.__name__.isidentifier() else None


def _kind(value: object) -> str:
    name = type(value).__name__.replace("_", " ")
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
