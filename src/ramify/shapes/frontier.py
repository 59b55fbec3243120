"""Expanding runs: how one is started, and when the same start goes on with one that exists.

    named     unfinished, same roots   -> go on with it
              unfinished, other roots  -> refused, both shown
              finished, same roots     -> say so, and give the finished one; with `again`, the next generation
    unnamed   unfinished, same roots, and the program that began it is gone -> go on with it; else a new one

Promises: a start is safe to send again: ids are reserved first, so that a run is created once however often the store
has to be asked. Two programs that start the same name at the same moment get the same run. What was asked for and
cannot be had of a run that exists (other parameters, another order) is refused and never silently dropped.

A crash before `start` returns leaves unused ids; after it, a run that the same line goes on with.

Does not work on the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from ramify.errors import BadPayload, ConfigError, StoreUnavailable
from ramify.kernel.offspring import Brood, sorted_out
from ramify.kernel.outbox import new_tasks
from ramify.model.call import Call, Group
from ramify.model.codec.refusal import explain
from ramify.model.codec.wire import Wire
from ramify.model.process import Process
from ramify.model.run import Follows, NewRun, Order, Run, RunState
from ramify.model.task import Appended, NewTasks, check_name
from ramify.shapes.owner import Owner, is_at_work
from ramify.store.contract import Store

T = TypeVar("T")

#: How many roots are kept in words, and how much of each.
SHOWN_ROOTS = 3
SHOWN_CHARACTERS = 100
#: How long a start waits for a store that is away, before it says so.
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: The states in which a run may be gone on with; one that drains is on its way to its end.
_UNFINISHED = (RunState.OPEN, RunState.PAUSED)

_anything = Wire(Any)


class Roots(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run remembers of its start: its roots, who began it, how many tasks it may have, and `since` which commit
    a tail finds all of its events.
    """

    digest: str
    count: int
    shown: tuple[str, ...] = ()
    owner: Owner | None = None
    max_tasks: int | None = None
    since: int = 0

    @classmethod
    def of_run(cls, run: Run) -> Roots:
        """The roots of a stored run; none, for one that was not started here."""
        try:
            return cls("", 0) if run.roots is None else msgspec.json.decode(run.roots, type=cls)
        except msgspec.DecodeError:
            return cls("", 0)

    def __str__(self) -> str:
        more = self.count - len(self.shown)
        return ", ".join(self.shown) + (f" and {more} more" if more else "")


class How(Enum):
    """What a start came to."""

    NEW = "new"
    CONTINUED = "continued"
    FINISHED = "finished"


class Added(msgspec.Struct, frozen=True):
    """What became of one call: the task it is now, or, when it was not `created`, the task that has its key.

    `task` is None when that one has given up the key since.
    """

    task: int | None
    created: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """The run that is there now, what the start came to, that in words, and what became of the roots of a new one."""

    run: Run
    how: How
    said: str
    roots: tuple[Added, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants to run. `older` are the earlier names of kinds, `busy` the runs this program works on now.

    `stays` when the asking program does the work itself.
    """

    roots: Sequence[Call[Any]]
    name: str | None = None
    again: bool = False
    order: Order = Order.ROUNDS
    params: object = None
    follows: Follows | None = None
    max_tasks: int | None = None
    stays: bool = True
    older: Mapping[str, Sequence[str]] = field(default_factory=dict)
    busy: Collection[int] = ()


def begin(store: Store, ask: Ask) -> Begun:
    """Start the run, or go on with the one that exists; ConfigError when that one is another."""
    _check(ask)
    known = store.reads.find_run(ask.name) if ask.name is not None else _orphan(store, ask)
    if known is None:
        return _start(store, ask, generation=1)
    if not known.state.is_end or not ask.again:
        return _existing(store, ask, known)
    return _start(store, ask, generation=known.generation + 1)


def add(store: Store, run: int, calls: Sequence[Call[Any]], take: Callable[[int, int], int]) -> tuple[Added, ...]:
    """Add tasks from outside to an unfinished run, and say what became of each; `take` gives ids, so many, above one.

    Above that of the run, so that what is added comes after its roots.
    """
    groups = as_groups(calls, take(len(calls), run), store.now())
    return _in_order(calls, until_answered(lambda: store.append(run, groups)))


def _in_order(calls: Sequence[Call[Any]], appended: Appended) -> tuple[Added, ...]:
    """What became of each call, in the order in which they were given; nothing when that is not known."""
    if not appended.ids:
        return ()
    found = {
        position: Added(appended.ids[g][i] or None, (g, i) not in appended.taken)
        for g, (_, brood) in enumerate(_sorted_out(calls))
        for i, position in enumerate(brood.parents)
    }
    return tuple(found[position] for position in range(len(calls)))


def chain(store: Store, run: Run) -> list[Run]:
    """The run, the one it follows, the one that follows, and so on."""
    found = [run]
    while (follows := found[-1].follows) is not None and len(found) < 1_000:
        found.append(store.reads.run(follows.run))
    return found


def until_answered(verb: Callable[[], T]) -> T:
    """The answer of a verb that may be sent again, waiting a while for a store that is away."""
    for pause in _PAUSES:
        try:
            return verb()
        except StoreUnavailable:
            time.sleep(pause)
    return verb()


def as_groups(calls: Sequence[Call[Any]], first: int, now: int) -> list[NewTasks]:
    """Calls as columns, with ids from `first` on, those of one group next to each other."""
    groups = []
    for group, brood in _sorted_out(calls):
        groups.append(msgspec.structs.replace(new_tasks(group, first, brood, now), parents=None))
        first += len(brood.bodies)
    return groups


def _sorted_out(calls: Sequence[Call[Any]]) -> Iterator[tuple[Group, Brood]]:
    """Calls by the rows they will lie in. Nobody is their parent: in that column is the position of each among them."""
    broods: dict[Group, Brood] = {}
    for position, call in enumerate(calls):
        broods.setdefault(call.group, Brood()).add(position, call)
    return sorted_out(broods)


def encode_params(params: object) -> bytes | None:
    """Parameters of a run as bytes; BadPayload names what JSON cannot hold."""
    if params is None:
        return None
    try:
        return _anything.seal(params)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
        raise BadPayload(f"params: {explain([('params', Any, params)], error)}") from None


def decode_params(raw: bytes | None) -> Any:
    """The inverse of `encode_params`."""
    return None if raw is None else _anything.read(raw)


def _check(ask: Ask) -> None:
    if not ask.roots:
        raise ConfigError("a run needs at least one root: give a call, such as measure.of(path)")
    if ask.name is not None:
        try:
            check_name("run name", ask.name)
        except BadPayload as error:
            raise ConfigError(str(error)) from None
    elif ask.again:
        raise ConfigError("again=True is for a run with a name; one without a name begins anew by itself")
    if ask.follows is not None and ask.order is not Order.ROUNDS:
        # Without rounds nothing would hold it back after its first tasks, and it would ask for what is not there yet.
        raise ConfigError(f'follows=... needs order="rounds"; a run with order="{ask.order.value}" keeps no step')
    if ask.max_tasks is not None and (isinstance(ask.max_tasks, bool) or not isinstance(ask.max_tasks, int)):
        raise ConfigError(f"max_tasks={ask.max_tasks!r}: give a whole number")
    if ask.max_tasks is not None and ask.max_tasks < len(ask.roots):
        raise ConfigError(f"max_tasks={ask.max_tasks}: the run has {len(ask.roots)} roots; give at least as many")


def _start(store: Store, ask: Ask, generation: int) -> Begun:
    params = encode_params(ask.params)
    run = until_answered(lambda: store.reserve(1 + len(ask.roots)))
    roots = Roots(
        next(_digests(ask)),
        len(ask.roots),
        tuple(_shown(call) for call in ask.roots[:SHOWN_ROOTS]),
        Owner.here(stays=ask.stays),
        ask.max_tasks,
        store.reads.head(),
    )
    new = NewRun(
        id=run,
        name=ask.name,
        generation=generation,
        order=ask.order,
        follows=ask.follows,
        params=params,
        roots=msgspec.json.encode(roots),
    )
    groups = as_groups(ask.roots, run + 1, store.now())
    started = until_answered(lambda: store.start(new, groups))
    if started.run.id != run:
        # Somebody else started this name since we looked.
        return _existing(store, ask, started.run)
    added = _in_order(ask.roots, started.added)
    said = f"{_called(started.run)} begins{' anew' if generation > 1 else ''}"
    holders = [str(each.task) for each in added if not each.created]
    if holders:
        others = ", ".join(holders[:SHOWN_ROOTS]) + (", …" if len(holders) > SHOWN_ROOTS else "")
        said += f" without {len(holders)} of its {len(added)} roots, whose keys are taken by task {others}"
    return Begun(started.run, How.NEW, said, added)


def _existing(store: Store, ask: Ask, run: Run) -> Begun:
    _check_same(store, ask, run)
    what = _called(run)
    if not run.state.is_end:
        match run.state:
            case RunState.PAUSED:
                said = "is paused; resume() lets it go on"
            case RunState.DRAINING:
                said = f"is being stopped ({run.reason or 'no reason given'})"
            case _:
                said = "goes on where it was"
        return Begun(run, How.CONTINUED, f"{what} {said}")
    why = f" ({run.reason})" if run.reason else ""
    advice = "again=True (`--again`) starts it anew"
    match run.state:
        case RunState.FAILED:
            advice = f"retry() tries its failed tasks again, {advice}"
        case RunState.CANCELLED | RunState.HALTED:
            advice = f"retry(cancelled=True) takes up what was cancelled, {advice}"
        case _:
            pass
    return Begun(run, How.FINISHED, f"{what} had ended as {run.state.value}{why}; {advice}")


def _check_same(store: Store, ask: Ask, run: Run) -> None:
    """Refuse to take a run for what was asked when it is something else."""
    what = _called(run)
    if ask.follows is not None and run.id in [each.id for each in chain(store, store.reads.run(ask.follows.run))]:
        raise ConfigError(f"{what} cannot follow run {ask.follows.run}: that one follows it already, or is itself")
    known = Roots.of_run(run)
    if known.digest not in _digests(ask):
        asked = Roots("", len(ask.roots), tuple(_shown(call) for call in ask.roots[:SHOWN_ROOTS]))
        raise ConfigError(
            f"{what} exists with other roots. It was started with {known}; asked for is {asked}. {_way_out(run)}"
        )
    given: list[tuple[str, object, object]] = [("order", ask.order.value, run.order.value)]
    if ask.params is not None:
        given.append(("params", decode_params(encode_params(ask.params)), decode_params(run.params)))
    if ask.follows is not None:
        given.append(("follows", ask.follows, run.follows))
    if ask.max_tasks is not None:
        given.append(("max_tasks", ask.max_tasks, known.max_tasks))
    for option, asked_for, stored in given:
        if asked_for != stored:
            raise ConfigError(
                f"{what} exists with {option}={stored!r}; asked for is {option}={asked_for!r}. "
                f"What a run was started with does not change. {_way_out(run)}"
            )


def _way_out(run: Run) -> str:
    if run.state.is_end:
        return "Start it anew with again=True (`--again`), or give the new one another name"
    return "Give the new one another name, or cancel this one first and start it anew with again=True (`--again`)"


def _orphan(store: Store, ask: Ask) -> Run | None:
    """The unfinished unnamed run with these roots whose program is gone."""
    digests = set(_digests(ask))
    sessions = store.reads.processes()
    if not ask.stays and any(is_at_work(each) for each in sessions):
        # Workers are there, and an unnamed run that was left to them is theirs: another start is another run.
        return None
    for run in _unfinished(store):
        if run.name is not None or run.shape != "frontier":
            continue
        roots = Roots.of_run(run)
        if roots.digest not in digests or roots.owner is None or roots.owner.stays != ask.stays:
            continue
        if _is_left(roots.owner, run.id, ask, sessions) and _is_as_asked(store, ask, run):
            return run
    return None


def _is_left(owner: Owner, run: int, ask: Ask, sessions: Sequence[Process]) -> bool:
    """Whether nobody is at it: its program is gone, or is this one and has stopped working on it."""
    return run not in ask.busy if owner.is_here and owner.stays else owner.is_gone(sessions)


def _is_as_asked(store: Store, ask: Ask, run: Run) -> bool:
    try:
        _check_same(store, ask, run)
    except ConfigError:
        return False
    return True


def _unfinished(store: Store) -> Iterator[Run]:
    for state in _UNFINISHED:
        after, more = 0, True
        while more:
            page = store.reads.runs(state=state, after=after)
            yield from page.rows
            after, more = page.after, page.more


def _digests(ask: Ask) -> Iterator[str]:
    """What tells roots apart: kinds and arguments, in any order. First as kinds are called now, then by older names."""
    identities = [(call.kind, call.group.signature.identity(call.body)) for call in ask.roots]
    ages = max((len(ask.older.get(kind, ())) for kind, _ in identities), default=0)
    for age in range(ages + 1):
        whole = blake2b(digest_size=16)
        for kind, identity in sorted((_name_at(ask, kind, age), identity) for kind, identity in identities):
            whole.update(b"%b\0%d %b" % (kind.encode(), len(identity), identity))
        yield whole.hexdigest()


def _name_at(ask: Ask, kind: str, age: int) -> str:
    names = (kind, *ask.older.get(kind, ()))
    return names[min(age, len(names) - 1)]


def _shown(call: Call[Any]) -> str:
    text = repr(call).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _called(run: Run) -> str:
    generation = f", generation {run.generation}" if run.generation > 1 else ""
    return f"run {run.id}{generation}" if run.name is None else f"run {run.name!r} ({run.id}{generation})"
