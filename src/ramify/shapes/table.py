"""The only table of shapes: a new one is a module beside this and a line here."""

from __future__ import annotations

from collections.abc import Container
from types import CodeType
from typing import Any

from ramify.errors import ConfigError
from ramify.kernel.core.handler import Handler
from ramify.model.stray import instead_of_call
from ramify.shapes import frontier
from ramify.shapes.dag import dataset as dag_dataset
from ramify.shapes.dag import own as dag_own
from ramify.shapes.dag import start as dag_start
from ramify.shapes.dag import trigger as dag_trigger
from ramify.shapes.dag import wait as dag_wait
from ramify.shapes.pipeline import own as pipeline_own
from ramify.shapes.pipeline import pipeline
from ramify.shapes.plan import Plan, Shape

#: By the names that are stored with runs, for people.
SHAPES: dict[str, Shape] = {
    "frontier": frontier.plan_of,
    "pipeline": pipeline.plan_of,
    "dag": dag_start.plan_of,
}
#: The tasks that shapes bring along, by kind.
OWN_HANDLERS: dict[str, Handler] = {
    **dag_own.HANDLERS,
    **dag_trigger.HANDLERS,
    **dag_wait.HANDLERS,
    **dag_dataset.HANDLERS,
    **pipeline_own.HANDLERS,
}


def plan_of(root: object, functions: Container[CodeType] = ()) -> tuple[str, Plan[Any]]:
    """The name of the shape that a root is of, and its plan; ConfigError for what is no root at all."""
    for name, shape in SHAPES.items():
        plan = shape(root, functions)
        if plan is not None:
            return name, plan
    raise ConfigError(f"run(): expected a call or a list of calls, got {instead_of_call(root)}.")
