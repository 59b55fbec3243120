"""Calls as a handler gives them, one by one or in iterables; what is no call is refused in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import isgenerator
from types import CodeType
from typing import Any

from ramify.errors import BadPayload
from ramify.model.call import Call
from ramify.model.stray import instead_of_call


def each_call(given: Iterable[object], is_task: Callable[[CodeType], bool]) -> Iterator[Any]:
    """Yield the calls that were given; `is_task` tells the code of a task's function, which was called by a slip."""
    for call in given:
        slip = isgenerator(call) and is_task(call.gi_code)
        if isinstance(call, Iterable) and not isinstance(call, Call | str | bytes) and not slip:
            yield from call
        else:
            yield call


def checked(verb: str, calls: list[Call[Any]]) -> list[Call[Any]]:
    """Return the calls; BadPayload if one of them is none."""
    for call in calls:
        if type(call) is not Call:
            raise BadPayload(f"{verb}(): expected calls, got {instead_of_call(call)}.")
    return calls


def check_continuation(then: object) -> None:
    """Refuse what cannot follow on the ends of others."""
    if type(then) is not Call:
        raise BadPayload(f"spawn(then=...): expected a call, got {instead_of_call(then)}.")
    if then.group.due is not None:
        raise BadPayload(
            "spawn(then=...): a continuation starts when its members have ended. Use .delay() instead of .at()."
        )
