"""The verbs of a pipeline as values, in the order in which they were written.

Each is checked where it is written, as far as it can be seen by itself; `tree.py` looks at what they make together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar

from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.model.call import LONGEST_DELAY, Call, Group, whole
from ramify.model.policy import Duration, seconds_in
from ramify.model.task import name_given
from ramify.shapes.dag.start import DagPlan
from ramify.shapes.plan import Plan

if TYPE_CHECKING:
    from ramify.shapes.pipeline.steps import Steps

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

#: What is due later than that is due never.
_OPTIONS = ("id", "retries", "timeout", "delay", "priority", "queue", "lane", "headers")


class MakesCalls(Protocol[P, R_co]):
    """A maker of calls: a task."""

    @property
    def kind(self) -> str:
        """Its name."""

    @property
    def group(self) -> Group:
        """The properties that its calls share."""

    def of(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call with these arguments."""


class StartsRuns(Protocol[P, R_co]):
    """A maker of runs: a pipeline."""

    def of(self, *args: P.args, **kwargs: P.kwargs) -> Plan[R_co]:
        """A run with these arguments."""


class BranchSteps(Protocol[P, R_co]):
    """Steps, as what they take and what they give: for type checkers only."""

    def _given(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


#: What can be a branch.
Branch = BranchSteps[P, R_co] | MakesCalls[P, R_co]


class StepOptions(TypedDict, total=False):
    """The options of one step: those of a call, and `id`, its name in the run."""

    id: str
    retries: int
    timeout: Duration
    delay: Duration
    priority: int
    queue: str
    lane: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """A task that gets what came before, with what was chosen for it."""

    task: MakesCalls[Any, Any]
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, unless that is taken."""
        return self.options.get("id") or self.task.kind

    def call(self, *args: Any, **kwargs: Any) -> Call[Any]:
        """A call with these arguments, and all that was chosen."""
        return self.chosen(whole(self.task.of(*args, **kwargs)))

    def chosen(self, made: Call[Any]) -> Call[Any]:
        """A call with all that was chosen for the step."""
        for option, value in self.options.items():
            match option:
                case "id":
                    pass
                case "headers":
                    made = made.headers(**value)
                case _:
                    made = getattr(made, option)(value)
        return made


@dataclass(frozen=True, slots=True)
class Gate:
    """A decision of a person or another program: `of` is the annotation of the answer."""

    name: str
    of: Any
    timeout: timedelta | None
    #: In a tuple, because None may be meant.
    otherwise: tuple[Any] | None


@dataclass(frozen=True, slots=True)
class Sleep:
    """A while before what follows."""

    length: timedelta


@dataclass(frozen=True, slots=True)
class RunOther:
    """A run of another pipeline, DAG or task, with what came before; its result goes on."""

    other: Definition | MakesCalls[Any, Any]
    id: str | None

    @property
    def name(self) -> str:
        """Its name, unless that is taken."""
        return self.id or (self.other.name if isinstance(self.other, Definition) else self.other.kind)


@dataclass(frozen=True, slots=True)
class Divide:
    """Several ways at once, each with the same value. Those with names give a dict, the others a list."""

    branches: tuple[tuple[str | None, Steps[Any, Any, Any]], ...]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the branches, if they have names."""
        found = tuple(name for name, _ in self.branches if name is not None)
        return found or None


@dataclass(frozen=True, slots=True)
class Expand:
    """A branch for each element of a list."""

    body: Steps[Any, Any, Any]
    max_items: int | None


@dataclass(frozen=True, slots=True)
class Divert:
    """One way of several, by what the step before returned."""

    ways: Mapping[str, Steps[Any, Any, Any]]
    otherwise: Steps[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Meet:
    """The step at which what was parted comes together again, and which verb wrote it."""

    verb: str
    step: Step


Verb = Step | Gate | Sleep | RunOther | Divide | Expand | Divert | Meet
#: The verb that brings together what another one parted.
MEETING: Mapping[type, str] = {Divide: "combine", Expand: "collapse", Divert: "converge"}
PARTING: Mapping[str, str] = {"combine": "divide", "collapse": "expand", "converge": "divert"}


def step_of(verb: str, task: object, options: Mapping[str, Any]) -> Step:
    """A step as it was written; ConfigError for what is none."""
    if isinstance(task, Call):
        raise ConfigError(f"{verb}({task.kind}.of(…)): expected a task, got a call. Write {verb}({task.kind}).")
    what = "a pipeline, a DAG with one param, or a task" if verb == "run" else "a task"
    if hasattr(task, "_verbs"):
        remedy = (
            'Make a pipeline of them: engine.pipeline("name", steps(…)).'
            if verb == "run"
            else "Chain the steps one by one; divide, expand and divert take branches."
        )
        raise ConfigError(f"{verb}(steps(…)): expected {what}, got steps. {remedy}")
    if isinstance(task, DagPlan):
        raise ConfigError(
            f"{verb}({task.name}.of(…)): expected a definition, got a run of it. Write "
            f"steps(…).run({task.name}): it takes the value so far."
        )
    if isinstance(task, Definition):
        raise ConfigError(
            f"{verb}({task.name}): expected {what}, got a pipeline or a DAG. Write steps(…).run({task.name})."
        )
    if not callable(getattr(task, "of", None)) or not hasattr(task, "kind"):
        raise ConfigError(
            f"{verb}({getattr(task, '__name__', repr(task))}): expected {what}. Make one with @engine.task."
        )
    if unknown := [name for name in options if name not in _OPTIONS]:
        raise ConfigError(
            f"{verb}({task.kind}, {unknown[0]}=…): unknown option. A step has the options {', '.join(_OPTIONS)}."
        )
    name_given(f"{verb}({task.kind}, id=…): an id", options.get("id", "step"))
    return Step(task, MappingProxyType(dict(options)))  # type: ignore[arg-type]  # it has `of`, whatever that takes


def check_behind(last: Verb | None, verb: Verb) -> None:
    """Refuse what would lose the value behind a gate."""
    if isinstance(last, Gate) and not isinstance(verb, Step | Meet):
        raise ConfigError(f"gate({last.name!r}): expected a step that takes the value and the answer. Add chain(…).")


def duration(verb: str, length: object) -> timedelta:
    """A length of time as it was written."""
    seconds = seconds_in(length)
    if seconds is None or seconds <= 0:
        raise ConfigError(f"{verb}{length!r}): expected seconds or a timedelta, more than 0. Write timedelta(days=3).")
    if seconds >= LONGEST_DELAY:
        raise ConfigError(f"{verb}{length!r}): expected less than a hundred years.")
    return timedelta(seconds=seconds)
