"""Steps: how pipelines are written, as a chain that hands a value on.

    steps(receive).chain(charge).divide([steps(pick), steps(bill)]).combine(ship)

Promises: types are checked along its length: each step takes what the one before returns, also through branches. What
can be seen to be wrong is refused where it is written, with what to write instead. Steps never change: each verb gives
new ones, so that parts can be shared.

What was parted is known by its type: `Steps[P, R, Parted]` are steps of which an `expand`, say, is still open. What is
chained then goes to each branch, until `collapse` brings them together.

Does not know stores or runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.kernel.attempts.stream import Stream
from ramify.model.codec.refusal import explain
from ramify.model.codec.wire import Wire, tree_in, write
from ramify.model.policy import Duration
from ramify.model.task import name_given
from ramify.shapes.dag.dag import Dag
from ramify.shapes.pipeline.route import Route
from ramify.shapes.pipeline.verbs import (
    MEETING,
    PARTING,
    Branch,
    Divert,
    Divide,
    Expand,
    Gate,
    MakesCalls,
    Meet,
    RunOther,
    Sleep,
    StartsRuns,
    StepOptions,
    Verb,
    check_behind,
    duration,
    step_of,
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
A = TypeVar("A")
V = TypeVar("V")
E = TypeVar("E")
#: What is still open around a value.
O = TypeVar("O")  # noqa: E741  the letter stands for "open"
# Those of the class itself; each verb has its own, by which it says of which steps it can be a verb.
P_self = ParamSpec("P_self")
R_co = TypeVar("R_co", covariant=True)
O_co = TypeVar("O_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)

_UNSET: Any = object()


class Whole:
    """Nothing is open: for type checkers only."""


class Divided(Generic[O_co]):
    """Branches of a `divide` are open, inside of what O says: for type checkers only."""


class DividedByName(Generic[O_co]):
    """Branches of a `divide` with names are open."""


class Expanded(Generic[O_co]):
    """Branches of an `expand` are open."""


class Diverted(Generic[O_co]):
    """Ways of a `divert` are open."""


class Answered(Generic[R_co, A_co]):
    """A value, and the answer of the gate that it came to: for type checkers only."""


class Steps(Generic[P_self, R_co, O_co]):
    """Steps that take the input of the first one and give the result of the last one. Made by `steps(task)`."""

    __slots__ = ("_open", "_verbs")

    def __init__(self, verbs: tuple[Verb, ...], open: tuple[str, ...] = ()) -> None:
        self._verbs = verbs
        #: The verbs that would bring together what is open, the innermost last.
        self._open = open

    if TYPE_CHECKING:

        def _given(self, *args: P_self.args, **kwargs: P_self.kwargs) -> R_co: ...

    @overload
    def chain(
        self: Steps[P, Answered[V, A], O], task: MakesCalls[[V, A], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    @overload
    def chain(self: Steps[P, R, O], task: MakesCalls[[R], S], **options: Unpack[StepOptions]) -> Steps[P, S, O]: ...
    def chain(self, task: Any, **options: Any) -> Any:
        """Add a task that takes the value so far; in each open branch."""
        return self._with(step_of("chain", task, options))

    # What lists and dicts of unlike branches give is more than mypy finds out: what they take is checked all the same.
    @overload
    def divide(self: Steps[P, R, O], branches: Mapping[str, Branch[[R], S]]) -> Steps[P, S, DividedByName[O]]: ...
    @overload
    def divide(self: Steps[P, R, O], branches: Mapping[str, Branch[[R], Any]]) -> Steps[P, Any, DividedByName[O]]: ...
    @overload
    def divide(self: Steps[P, R, O], branches: Sequence[Branch[[R], S]]) -> Steps[P, S, Divided[O]]: ...
    @overload
    def divide(self: Steps[P, R, O], branches: Sequence[Branch[[R], Any]]) -> Steps[P, Any, Divided[O]]: ...
    def divide(self, branches: Any) -> Any:
        """Run several branches at once, each with the value so far: `[steps(pick), steps(bill)]`, or a dict of them."""
        if not branches or isinstance(branches, str | Steps) or not isinstance(branches, Mapping | Iterable):
            raise ConfigError(f"divide({branches!r}): expected a list of branches, or a dict of them by name.")
        found: list[tuple[str | None, Steps[Any, Any, Any]]] = []
        if isinstance(branches, Mapping):
            for name, branch in branches.items():
                name_given("divide: a name", name)
                found.append((name, _steps_of("divide", branch)))
        else:
            found += ((None, _steps_of("divide", branch)) for branch in branches)
        return self._parted(Divide(tuple(found)))

    @overload
    def combine(
        self: Steps[P, Answered[Any, A], DividedByName[O]],
        into: MakesCalls[[dict[str, A]], S],
        **options: Unpack[StepOptions],
    ) -> Steps[P, S, O]: ...
    @overload
    def combine(
        self: Steps[P, Answered[Any, A], Divided[O]], into: MakesCalls[[list[A]], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    @overload
    def combine(
        self: Steps[P, R, DividedByName[O]], into: MakesCalls[[dict[str, R]], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    @overload
    def combine(
        self: Steps[P, R, Divided[O]], into: MakesCalls[[list[R]], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    def combine(self, into: Any, **options: Any) -> Any:
        """Join divided branches: the task takes a list of their results, in the order they were written in.

        Named branches give a dict.
        """
        return self._met("combine", into, options)

    def expand(
        self: Steps[P, list[E] | tuple[E, ...] | Iterator[E], O],
        task: Branch[[E], S],
        *,
        max_items: int | None = None,
        **options: Unpack[StepOptions],
    ) -> Steps[P, S, Expanded[O]]:
        """Run a branch for each element of the list so far.

        More than `max_items` elements fail before any branch starts. An empty list ends the branch: `collapse` and the
        steps after it are skipped.
        """
        if max_items is not None and (isinstance(max_items, bool) or not isinstance(max_items, int) or max_items < 0):
            raise ConfigError(f"expand(max_items={max_items!r}): expected a whole number, 0 or more.")
        return self._parted(Expand(_steps_of("expand", task, options), max_items))

    @overload
    def collapse(
        self: Steps[P, Answered[Any, A], Expanded[O]], into: MakesCalls[[Stream[A]], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    @overload
    def collapse(
        self: Steps[P, R, Expanded[O]], into: MakesCalls[[Stream[R]], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]: ...
    def collapse(self, into: Any, **options: Any) -> Any:
        """Join expanded branches: the task takes a `Stream` of their results, in the order of the list."""
        return self._met("collapse", into, options)

    @overload
    def divert(
        self: Steps[P, Route[V], O],
        ways: Mapping[Any, Branch[[V], S]],
        *,
        otherwise: Branch[[V], T],
    ) -> Steps[P, S | T, Diverted[O]]: ...
    @overload
    def divert(
        self: Steps[P, Route[V], O],
        ways: Mapping[Any, Branch[[V], Any]],
        *,
        otherwise: Branch[[V], Any],
    ) -> Steps[P, Any, Diverted[O]]: ...
    @overload
    def divert(
        self: Steps[P, R, O],
        ways: Mapping[Any, Branch[[R], S]],
        *,
        otherwise: Branch[[R], T],
    ) -> Steps[P, S | T, Diverted[O]]: ...
    @overload
    def divert(
        self: Steps[P, R, O],
        ways: Mapping[Any, Branch[[R], Any]],
        *,
        otherwise: Branch[[R], Any],
    ) -> Steps[P, Any, Diverted[O]]: ...
    def divert(self, ways: Any, *, otherwise: Any = _UNSET) -> Any:
        """Take one way, chosen by the step before: it returns `Route(name, value)`, or the name as its value."""
        if not isinstance(ways, Mapping) or not ways:
            raise ConfigError(f"divert({ways!r}): expected a dict of ways, by the value that the step before returns.")
        if otherwise is _UNSET:
            raise ConfigError(
                f"divert({{{', '.join(map(repr, ways))}: …}}): expected a way for any other value. Give otherwise=…."
            )
        found: dict[str, Steps[Any, Any, Any]] = {}
        for key, way in ways.items():
            name = _name_of(key)
            if name in found:
                raise ConfigError(
                    f"divert: the way {key!r} can never be taken: another one is called {name!r}. Remove one."
                )
            found[name] = _steps_of("divert", way)
        return self._parted(Divert(found, _steps_of("divert", otherwise)))

    def converge(
        self: Steps[P, R, Diverted[O]], into: MakesCalls[[R], S], **options: Unpack[StepOptions]
    ) -> Steps[P, S, O]:
        """Join the ways again: the task takes the result of the way that was taken."""
        return self._met("converge", into, options)

    @overload
    def gate(
        self: Steps[P, R, O], name: str, of: type[A], *, timeout: Duration | None = None, otherwise: A = ...
    ) -> Steps[P, Answered[R, A], O]: ...
    # Annotations that are no classes say nothing to type checkers.
    @overload
    def gate(
        self: Steps[P, R, O], name: str, of: UnionType, *, timeout: Duration | None = None, otherwise: Any = ...
    ) -> Steps[P, Answered[R, Any], O]: ...
    @overload
    def gate(
        self: Steps[P, R, O], name: str, of: object, *, timeout: Duration | None = None
    ) -> Steps[P, Answered[R, Any], O]: ...
    def gate(self, name: str, of: Any, *, timeout: Duration | None = None, otherwise: Any = _UNSET) -> Any:
        """Wait for an answer of this type: `run.answer("approval", value)`. The next step takes (value, answer).

        After `timeout` the answer is `otherwise`; without `otherwise` the gate fails and the run is halted.
        """
        name_given("gate: a name", name)
        limit = None if timeout is None else duration(f"gate({name!r}, timeout=", timeout)
        if limit is None and otherwise is not _UNSET:
            raise ConfigError(
                f"gate({name!r}, otherwise=…): expected a timeout after which that is the answer. Give timeout=…."
            )
        try:
            wire = Wire(of)
        except TypeError as error:
            raise ConfigError(f"gate({name!r}, {of!r}): answers of this type cannot be stored: {error}") from None
        if otherwise is not _UNSET:
            try:
                wire.seal(otherwise)
            except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
                what = explain([("otherwise", of, otherwise)], error)
                raise ConfigError(f"gate({name!r}, …): {what}") from None
        return self._with(Gate(name, of, limit, None if otherwise is _UNSET else (otherwise,)))

    def sleep(self: Steps[P, R, O], length: Duration) -> Steps[P, R, O]:
        """Wait before the next step. No worker is blocked meanwhile."""
        return self._with(Sleep(duration("sleep(", length)))

    @overload
    def run(self: Steps[P, R, O], other: StartsRuns[[R], S], *, id: str | None = None) -> Steps[P, S, O]: ...
    @overload
    def run(self: Steps[P, R, O], other: MakesCalls[[R], S], *, id: str | None = None) -> Steps[P, S, O]: ...
    @overload
    def run(self: Steps[P, R, O], other: Dag, *, id: str | None = None) -> Steps[P, Any, O]: ...
    def run(self, other: Any, *, id: str | None = None) -> Any:
        """Start another run with the value so far, wait for it, and continue with its result.

        `other` is a pipeline, a task, or a DAG with one param. It is started once, under the names of this run and the
        step: `order-o-17/refund`. If it does not end as done, this step fails; a retry of this step retries its failed
        tasks.
        """
        if id is not None:
            name_given("run: a name", id)
        if not isinstance(other, Definition):
            step_of("run", other, {})
        return self._with(RunOther(other, id))

    def __repr__(self) -> str:
        return f"<{len(self._verbs)} steps>"

    def _with(self, verb: Verb) -> Steps[Any, Any, Any]:
        check_behind(self._verbs[-1] if self._verbs else None, verb)
        return Steps((*self._verbs, verb), self._open)

    def _parted(self, verb: Divide | Expand | Divert) -> Steps[Any, Any, Any]:
        return Steps(self._with(verb)._verbs, (*self._open, MEETING[type(verb)]))

    def _met(self, verb: str, into: object, options: Mapping[str, Any]) -> Steps[Any, Any, Any]:
        step = step_of(verb, into, options)
        if not self._open:
            raise ConfigError(f"{verb}({step.name}): no open branch to join. Write {PARTING[verb]}(…) first.")
        if self._open[-1] != verb:
            raise ConfigError(
                f"{verb}({step.name}): the innermost open branch is {PARTING[self._open[-1]]}(…). "
                f"Join it with {self._open[-1]}(…)."
            )
        return Steps(self._with(Meet(verb, step))._verbs, self._open[:-1])


def steps(first: MakesCalls[P, R], **options: Unpack[StepOptions]) -> Steps[P, R, Whole]:
    """Make the first step of a pipeline or a branch. It takes the input of `pipeline.of(...)`, or the value so far."""
    if isinstance(first, Steps):
        raise ConfigError("steps(): expected a task, got steps(…). Add to them with chain(…).")
    return Steps((step_of("steps", first, options),))


def _name_of(way: object) -> str:
    """Return the name of a way: the value of the step before is compared as it is stored, an enum by its value."""
    try:
        return str(tree_in(write(way)))
    except Exception as error:  # noqa: BLE001  whatever a key may be, it is refused
        why = explain([("way", Any, way)], error)
        raise ConfigError(f"divert: the way {way!r} can never be taken: {why}") from None


def _steps_of(verb: str, branch: object, options: Mapping[str, Any] | None = None) -> Steps[Any, Any, Any]:
    """A branch that may be given as a bare task."""
    if not isinstance(branch, Steps):
        return Steps((step_of(verb, branch, options or {}),))
    if options:
        raise ConfigError(
            f"{verb}(steps(…), {next(iter(options))}=…): expected options on the steps themselves. Write them there."
        )
    return branch
