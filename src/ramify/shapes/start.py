"""Starts: how runs of every shape begin, and when the same start goes on with one that exists.

    named     unfinished, same roots   -> go on with it
              unfinished, other roots  -> refused, both shown
              finished, same roots     -> say so, and give the finished one; with `again`, the next generation
    unnamed   unfinished, same roots, and the program that began it is gone -> go on with it; else a new one

Promises: a start is safe to send again: it has its ids first, so that a run is created once however often the store
has to be asked. Two programs that start the same name at the same moment get the same run. What was asked for and
cannot be had of a run that exists (other parameters, another order) is refused and never silently dropped.

A crash before `start` returns leaves unused ids; after it, a run that the same line goes on with.

Does not work on the run, and does not know what its shape is like: that is in its plan.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

from ramify.errors import BadPayload, ConfigError, StoreUnavailable
from ramify.model.call import Call
from ramify.model.codec.refusal import explain
from ramify.model.codec.wire import Wire
from ramify.model.digest import digest_of
from ramify.model.policy import SECOND
from ramify.model.run import Follows, NewRun, Order, Owner, RunState, Started, StoredRun, seconds_left
from ramify.model.stray import instead_of_call
from ramify.model.task import Row, name_given
from ramify.shapes.bounds import Bounds
from ramify.shapes.owner import is_at_work, is_gone, is_here, this_program
from ramify.shapes.plan import Added, Beginning, Plan, laid_out
from ramify.store.contract import Store

T = TypeVar("T")

#: What runs are called that were started again under their name.
_GENERATION = re.compile(r"(.+)#(\d+)", re.DOTALL)
#: How many tasks that hold keys of roots are named.
_NAMED = 3
#: How long a start waits for a store that is away, before it says so.
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: The bounds that are numbers.
_NUMBERS = ("max_running", "max_tasks")
#: The states in which a run may be gone on with; one that drains is on its way to its end.
_UNFINISHED = (RunState.OPEN, RunState.PAUSED)

#: The sizes of the two parts of what is stored of a launched run: what it is, then who launched it with what.
_DIGEST, _LAUNCHED = 16, 8

_anything = Wire(Any)


class How(Enum):
    """The effect of a start."""

    NEW = "new"
    CONTINUED = "continued"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Begun:
    """The run that is there now, what the start came to, that in words, and what became of the roots of a new one."""

    run: StoredRun
    how: How
    said: str
    roots: tuple[Added, ...] = ()


@dataclass(frozen=True)
class StartRequest:
    """A request to run something, as a plan of a shape. `older` are the earlier names of kinds, `busy` the runs this
    program works on now.

    `stays` when the asking program does the work itself. `launched` says from which place the run is launched, and with
    what (`launch_digest`). Its first tasks inherit `headers`.
    """

    shape: str
    plan: Plan[Any]
    name: str | None = None
    again: bool = False
    order: Order = Order.ROUNDS
    params: object = None
    follows: Follows | None = None
    bounds: Bounds = Bounds()
    stays: bool = True
    launched: bytes = b""
    older: Mapping[str, Sequence[str]] = field(default_factory=dict)
    busy: Collection[int] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """Digests that tell this start from others: as kinds are called now, then by older names."""
        shape = self.shape.encode()
        identities = self.plan.identities(self.older)
        return tuple(digest_of(b"%b\0%b" % (shape, identity), _DIGEST) for identity in identities)


def begin(store: Store, ask: StartRequest, reserve: Callable[[int], int] | None = None) -> Begun:
    """Start the run, or go on with the one that exists; ConfigError when that one is another.

    `reserve` gives so many ids that follow on; without it they are reserved for this start.
    """
    _check(ask)
    known = store.reads.find_run(ask.name) if ask.name is not None else _orphan(store, ask)
    if known is not None and (not known.state.is_end or not ask.again):
        return _existing(store, ask, known)
    reserve = reserve if reserve is not None else lambda many: until_answered(lambda: store.reserve(many))
    return _start(store, ask, reserve, generation=1 if known is None else known.generation + 1)


def launch_digest(place: str, given: object) -> bytes:
    """Return what tells from which place a run was launched, and with what: of one place, the first half is always the
    same.

    What a run is made of may be defined anew while it goes on; what it was given stays.
    """
    return _place_digest(place) + _launch_part(_anything.seal(given))


def is_launched(run: StoredRun) -> bool:
    """Return whether a task launched a run; people start the others."""
    return len(run.digest or b"") > _DIGEST


def is_launched_from(run: StoredRun, place: str) -> bool:
    """Return whether a run was launched from that place."""
    return (run.digest or b"")[_DIGEST : _DIGEST + _LAUNCHED] == _place_digest(place)


def _place_digest(place: str) -> bytes:
    return _launch_part(place.encode(errors="surrogatepass"))


def _launch_part(part: bytes) -> bytes:
    return digest_of(part, _LAUNCHED)


def begin_once(
    store: Store, ask: StartRequest, reserve: Callable[[int], int], after: int, is_over: Callable[[StoredRun], bool]
) -> int:
    """Start a run that a task launches, unless it is there; the id of the run that is there now.

    For a start that is sent again by whoever does not know whether it was sent. The next generation follows what began
    before the commit `after`, what is over, and what has ended and was launched with something else. ConfigError when
    another run has the name.
    """
    _check(ask)
    assert ask.name is not None
    known = store.reads.find_run(ask.name)
    while known is None or _is_past(store, ask, known, after) or is_over(known):
        run, started, _ = _sent(store, ask, reserve, generation=1 if known is None else known.generation + 1)
        if started.run.id == run:
            return run
        known = started.run
    return known.id


def _is_past(store: Store, ask: StartRequest, run: StoredRun, after: int) -> bool:
    """Return whether a run of that name was launched by the same task for something else than it wants now."""
    launched = (run.digest or b"")[_DIGEST:]
    if launched[:_LAUNCHED] != ask.launched[:_LAUNCHED]:
        _check_same(store, ask, run)
    elif launched != ask.launched:
        if not run.state.is_end:
            raise ConfigError(
                f"{_called(run)} still runs {run.shown}, and {ask.plan} was asked for. "
                "Cancel it or let it end, then retry."
            )
        return True
    return run.since < after


def add(store: Store, run: int, calls: Sequence[Call[Any]], reserve: Callable[[int, int], int]) -> tuple[Added, ...]:
    """Add tasks from outside to an unfinished run, and say what became of each; `reserve` gives ids above the run's.

    So what is added comes after its roots.
    """
    if stray := next((call for call in calls if type(call) is not Call), None):
        raise ConfigError(f"add(): expected a call, got {instead_of_call(stray)}.")
    new = laid_out(calls, reserve(len(calls), run), store.now())
    (appended,) = until_answered(lambda: store.append([new.into(run)]))
    return new.added(appended)


def chain(store: Store, run: StoredRun) -> list[StoredRun]:
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


def _check(ask: StartRequest) -> None:
    if ask.name is not None:
        name_given("run name", ask.name)
        if (found := _GENERATION.fullmatch(ask.name)) is not None:
            raise ConfigError(
                f"run name {ask.name!r}: generation {found[2]} of {found[1]!r} has this name. Choose another name."
            )
    elif ask.again:
        raise ConfigError("again=True: expected a run with a name. Give name=..., or leave again out.")
    if ask.follows is not None and ask.order is not Order.ROUNDS:
        # Without rounds nothing would hold it back after its first tasks, and it would ask for what is not there yet.
        raise ConfigError(f'follows=...: expected order="rounds", got order="{ask.order.value}". Leave order out.')
    ask.bounds.check(len(ask.plan.calls))


def _sent(
    store: Store, ask: StartRequest, reserve: Callable[[int], int], generation: int
) -> tuple[int, Started, Beginning]:
    """The id that was meant for the run, what the store made of it, and its first tasks."""
    params = encode_params(ask.plan.given if ask.params is None else ask.params)
    now = store.now()
    deadline = ask.bounds.moment(now)
    if deadline is not None and deadline <= now:
        raise ConfigError(f"deadline={ask.bounds.deadline!r}: that moment has passed. Give a later one.")
    run = reserve(1 + ask.plan.size)
    new = NewRun(
        id=run,
        name=ask.name,
        generation=generation,
        shape=ask.shape,
        order=ask.order,
        follows=ask.follows,
        params=params,
        digest=ask.digests[0] + ask.launched,
        shown=str(ask.plan),
        owner=this_program(stays=ask.stays),
        max_running=ask.bounds.max_running,
        max_tasks=ask.bounds.max_tasks,
        deadline=deadline,
        fails_as=ask.plan.fails_as,
        definition=ask.plan.name,
    )
    beginning = ask.plan.beginning(run + 1, now).inheriting(ask.headers)
    started = until_answered(lambda: store.start(new, beginning.tasks, beginning.joins, beginning.waiters))
    return run, started, beginning


def _start(store: Store, ask: StartRequest, reserve: Callable[[int], int], generation: int) -> Begun:
    run, started, beginning = _sent(store, ask, reserve, generation)
    if started.run.id != run:
        # Somebody else started this name since we looked.
        return _existing(store, ask, started.run)
    added = beginning.added(started.added)
    said = f"{_called(started.run)} begins{' anew' if generation > 1 else ''}"
    holders = [str(each.task) for each in added if not each.created]
    if holders:
        others = ", ".join(holders[:_NAMED]) + (", …" if len(holders) > _NAMED else "")
        said += f" without {len(holders)} of its {len(added)} roots, whose keys are taken by task {others}"
    return Begun(started.run, How.NEW, said, added)


def _existing(store: Store, ask: StartRequest, run: StoredRun) -> Begun:
    _check_same(store, ask, run)
    what = _called(run)
    if not run.state.is_end:
        match run.state:
            case RunState.PAUSED:
                said = "is paused. resume() continues it"
            case RunState.DRAINING:
                said = f"is being stopped ({run.reason or 'no reason given'})"
            case _:
                left = seconds_left(run.deadline, RunState.OPEN, store.now())
                said = "continues" + ("" if left is None else f", with {left:,.0f} seconds to its deadline")
        return Begun(run, How.CONTINUED, f"{what} {said}")
    why = f" ({run.reason})" if run.reason else ""
    ended = "was forgotten" if run.state is RunState.FORGOTTEN else f"had ended as {run.state.value}"
    advice = "again=True (`--again`) starts it again"
    match run.state:
        case RunState.FAILED:
            advice = f"retry() retries its failed tasks, {advice}"
        case RunState.CANCELLED | RunState.HALTED:
            advice = f"retry(cancelled=True) retries its cancelled tasks, {advice}"
        case _:
            pass
    return Begun(run, How.FINISHED, f"{what} {ended}{why}; {advice}")


def _check_same(store: Store, ask: StartRequest, run: StoredRun) -> None:
    """Refuse to take a run for what was asked when it is something else."""
    what = _called(run)
    if ask.follows is not None and run.id in [each.id for each in chain(store, store.reads.run(ask.follows.run))]:
        raise ConfigError(f"{what} cannot follow run {ask.follows.run}, which follows it already or is the same run.")
    if (run.digest or b"")[:_DIGEST] not in ask.digests:
        raise ConfigError(
            f"{what} exists with other roots: expected {run.shown}, got {ask.plan}"
            f"{ask.plan.difference(_first_tasks(store, run.id))}. {_way_out(run)}"
        )
    given: list[tuple[str, object, object]] = [("order", ask.order.value, run.order.value)]
    if ask.params is not None:
        given.append(("params", decode_params(encode_params(ask.params)), decode_params(run.params)))
    if ask.follows is not None:
        given.append(("follows", ask.follows, run.follows))
    bounds = ask.bounds
    given += ((name, value, getattr(run, name)) for name in _NUMBERS if (value := getattr(bounds, name)) is not None)
    # A timedelta counts from the beginning of the run, which was then.
    if isinstance(bounds.deadline, datetime):
        given.append(("deadline", _in_utc(bounds.moment(0)), _in_utc(run.deadline)))
    for option, asked_for, stored in given:
        if asked_for != stored:
            raise ConfigError(
                f"{what} exists with {option}={stored!r}: got {option}={asked_for!r}. "
                f"The options of a run do not change. {_way_out(run)}"
            )


def _first_tasks(store: Store, run: int) -> Iterator[Row]:
    """The tasks with which a run began, and those that were added from outside."""
    after, more = 0, True
    while more:
        page = store.reads.tasks(run, after=after, limit=1_000)
        yield from (row for row in page.rows if row.parent is None)
        after, more = page.after, page.more


def _in_utc(moment: int | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment / SECOND, UTC).isoformat()


def _way_out(run: StoredRun) -> str:
    if run.state.is_end:
        return "Start it again with again=True (`--again`), or give the new run another name."
    return "Give the new run another name, or cancel this one and start it again with again=True (`--again`)."


def _orphan(store: Store, ask: StartRequest) -> StoredRun | None:
    """The oldest unfinished unnamed run with these roots whose program is gone."""
    left: list[StoredRun] = []
    for digest in ask.digests:
        # Of what this very program left to others, another start is another run: it may start thousands alike.
        owners = [o for o in store.reads.owners(digest) if o.stays == ask.stays and (o.stays or not is_here(o))]
        sessions = store.reads.processes() if owners else ()
        if not ask.stays and any(is_at_work(each) for each in sessions):
            # Workers are there, and an unnamed run that was left to them is theirs.
            return None
        for owner in owners:
            if is_here(owner) or is_gone(owner, sessions):
                left += islice((run for run in _unnamed(store, digest, owner) if _is_left(store, ask, run)), 1)
    return min(left, key=lambda run: run.id, default=None)


def _is_left(store: Store, ask: StartRequest, run: StoredRun) -> bool:
    """Return whether a run can be gone on with: as asked for, unfinished, and nothing this program is working on."""
    if run.id in ask.busy or run.state not in _UNFINISHED:
        return False
    try:
        _check_same(store, ask, run)
    except ConfigError:
        return False
    return True


def _unnamed(store: Store, digest: bytes, owner: Owner) -> Iterator[StoredRun]:
    after, more = 0, True
    while more:
        page = store.reads.unnamed(digest, owner, after=after)
        yield from page.rows
        after, more = page.after, page.more


def _called(run: StoredRun) -> str:
    generation = f", generation {run.generation}" if run.generation > 1 else ""
    return f"run {run.id}{generation}" if run.name is None else f"run {run.name!r} ({run.id}{generation})"
