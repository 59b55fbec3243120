"""Pipelines: steps under a name, of which runs are started.

Promises: what can be seen to be wrong is refused when it is defined. A run is pinned to the steps as they were when it
started: everything it needs is in its rows. A run with failed steps ends as halted, and goes on where it was when it
is retried.

Does not start anything, and does not know stores.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import fields
from types import CodeType
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from ramify.errors import ConfigError
from ramify.model.call import Call
from ramify.model.run import RunState
from ramify.model.task import name_given
from ramify.shapes.dag.dag import Dag
from ramify.shapes.dag.start import DagPlan
from ramify.shapes.definitions import Definitions
from ramify.shapes.pipeline.growing import Growing
from ramify.shapes.pipeline.steps import Steps
from ramify.shapes.pipeline.tree import tree_of
from ramify.shapes.pipeline.verbs import Step

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class PipelinePlan(DagPlan, Generic[R_co]):
    """A run of a pipeline to be started."""

    @property
    def calls(self) -> Sequence[Call[R_co]]:
        """The calls of users."""
        return super().calls

    @property
    def fails_as(self) -> RunState:
        """Halted, so that it can be revived."""
        return RunState.HALTED

    def __str__(self) -> str:
        return f"{self.name}: {self.nodes[0]!r}, {len(self.nodes):,} nodes"


class Pipeline(Generic[P, R]):
    """Steps under a name: `order = engine.pipeline("order", steps(receive).chain(charge))`."""

    def __init__(self, name: str, steps: Steps[P, R, Any], definitions: Definitions) -> None:
        given: object = steps
        if not isinstance(given, Steps):
            what = getattr(given, "kind", "task")
            raise ConfigError(f"pipeline({name!r}): expected steps, got {given!r}. Write steps({what}).chain(…).")
        self.name = name_given("the name of a pipeline", name)
        self._dag = Dag(name)
        self.starts, self.produces = self._dag.starts, self._dag.produces
        self.awaits, self.awaits_all = self._dag.awaits, self._dag.awaits_all
        first, *rest = tree_of(steps._verbs)
        assert isinstance(first, Step)
        self._first = first
        growing = Growing(self._dag, self._dag, definitions)
        #: The annotation of what a run of it comes to.
        self.gives = growing.add(rest, growing.first(first)).gives
        self._runtime = growing.inside
        definitions.add(self)

    def of(self, *args: P.args, **kwargs: P.kwargs) -> PipelinePlan[R]:
        """Make a run of it to be started, with the arguments of its first step: `engine.start(order.of("o-17"))`."""
        return self._made(self._first.call(*args, **kwargs))

    def _made(self, first: Call[Any]) -> PipelinePlan[R]:
        plan = self._dag._plan({}, {})
        made: dict[str, Any] = {field.name: getattr(plan, field.name) for field in fields(plan)}
        made["nodes"] = (first, *plan.nodes[1:])
        # By its name alone it cannot be started: its arguments are in its first node.
        made["definition"] = None
        made["inside"] = (*plan.inside, *self._runtime)
        return PipelinePlan(**made)

    def of_stored(self, params: Mapping[str, bytes]) -> PipelinePlan[R]:
        """Make a run of it with the argument of its first step in stored form."""
        args, kwargs = self._first.task.group.signature.decode(b"[%b]" % b",".join(params.values()))
        return self._made(self._first.call(*args, **kwargs))

    def on_end(self, call: Call[Any], *, when: Literal["done", "failed", "always"] = "always") -> None:
        """Start a call when a run has nothing left to do: always, only if steps failed, or only if none did.

        It belongs to the run, which ends after it. `current().run.ends` has the numbers of steps by how they ended.
        After a retry of the run it runs again, as a new task with a new `current().idempotency_key`. Deduplicate its
        effects by one of its arguments, such as an order number.
        """
        self._dag.on_end(call, when=when)

    def __repr__(self) -> str:
        return f"<pipeline {self.name}: {len(self._dag):,} nodes>"


def plan_of(root: object, functions: Container[CodeType]) -> PipelinePlan[Any] | None:
    """A run of a pipeline is its own plan."""
    return root if isinstance(root, PipelinePlan) else None
