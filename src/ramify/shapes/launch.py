"""Launches: runs that a task of another run starts, once, and what came of other runs.

A launched run has a name that follows from who launches it, so that a start which was sent again finds the run that is
there: `etl-0105/report`. A run without a name goes by its id; later generations of one by their number, `etl-0105#2`. A
task that runs again after it had succeeded, or with other input, launches the next generation of that name; so does
one that takes the place of a task which was replaced. One that runs again although it had not succeeded continues with
the run that it launched: what failed in that one is tried again. If there is no such thing, as when it was cancelled,
the next generation is launched.

Promises: however often a task is killed and tried again, it launches one run, and never takes a run of others for it.
A task that waits for a run keeps no worker busy. It is put back, and the transaction that ends that run makes it due.
Besides, it looks again by itself: after a second, then ever more seldom, at least once a minute, and after a second
again in each new life. Such looks find a run that did not exist yet, a single task that has ended in a run that goes
on, and, for a process that works on certain runs only, the run that was launched.

Does not know shapes: whatever can be started can be launched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.kernel.attempts.attempt_env import Origin
from ramify.kernel.attempts.control import Await, Defer, Fatal, Skip
from ramify.kernel.attempts.current import Current, current
from ramify.kernel.core.handler import Handler
from ramify.model.codec.wire import write
from ramify.model.join import Rule
from ramify.model.task import MAX_NAME
from ramify.shapes.dag.own import UNKNOWN_PAUSE, filled_in, group_of
from ramify.shapes.dag.packed import PackedCall

#: How much longer each wait for another run is than the one before, and the longest, in seconds: it is reached by then.
SLOWER, LONGEST_LOOK, SLOWEST = 1.25, 60.0, 20


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run to be started: a call, or a run of what is defined under a name; by a trigger, if the rule allows it.

    A call has values of who starts it in its `blanks`, and results in its slots. Of a definition, `values` are the
    params that are known, and `names` those of the others.
    """

    rule: Rule = Rule.ALWAYS
    call: PackedCall | None = None
    blanks: tuple[int, ...] = ()
    definition: str = ""
    values: dict[str, Any] = {}
    names: tuple[str, ...] = ()


def root_of(me: Current, how: Launch, params: Sequence[Any], results: Sequence[Any] = ()) -> object:
    """Return what is to be started, with these values in it; BadPayload or ConfigError when they do not fit."""
    if how.call is not None:
        body = filled_in(how.call, how.blanks, params, results)
        group = group_of(me, how.call)
        if isinstance(group.handler, Handler):
            group.handler.signature.decode(body)
        return how.call.call(group, body)
    definition = me._attempt_env.library.others.definition(how.definition)
    if definition is None:
        me.log.warning("%r is not defined here; waiting for a process that knows it", how.definition)
        raise Defer(UNKNOWN_PAUSE, f"waits for a process that knows {how.definition!r}")
    values = {**how.values, **dict(zip(how.names, (*params, *results), strict=True))}
    return definition.of_stored({name: write(value) for name, value in values.items()})


def launch(root: object, suffix: str, given: object) -> int:
    """Start a run from the task that runs here; the id of the run, also when it was started before with the same.

    ConfigError when another run has that name.
    """
    me = current()
    # With a number behind that mark it would be a generation.
    suffix = suffix.replace("#", "+")
    origin = Origin(me.task, me._life, given, place_of(me.run.id, suffix or str(me.task)), me.parent)
    return me._attempt_env.library.others.start(root, _name(me, suffix), origin)


def result_of(run: int | str, key: str | None = None) -> Any:
    """Return what came of another run, or of its task with that key, once it has ended well; until then, look again
    later.
    """
    me = current()
    ending = me._attempt_env.library.others.ending(run, key)
    if ending.awaited is not None:
        raise Await(ending.until, look_again_after(me._deferrals), f"waits for {ending.awaited}")
    if ending.problem is not None:
        raise Fatal(ending.problem)
    if ending.skipped is not None:
        raise Skip(ending.skipped)
    return ending.value


def look_again_after(looks: int) -> float:
    """How many seconds to wait after so many looks."""
    return min(LONGEST_LOOK, SLOWER ** min(looks, SLOWEST))


def _name(me: Current, suffix: str) -> str:
    run = me.run
    heads = launched_heads(run.id, run.name, run.generation)
    names = (*(f"{head}/{suffix}" for head in heads), f"{run.id}/{me.task}")
    return next(name for name in names if len(name) <= MAX_NAME)


def launched_heads(run: int, name: str | None, generation: int) -> tuple[str, ...]:
    """How the names of runs may begin that tasks of a run launch, before a slash."""
    own = str(run) if name is None else name if generation == 1 else f"{name}#{generation}"
    return tuple(dict.fromkeys((own, str(run))))


def place_of(run: int, suffix: str) -> str:
    """Return what tells who launches a run: its own run, and how the name of the launched one ends."""
    return f"{run}/{suffix}"
