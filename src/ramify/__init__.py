"""Ramify: a durable task engine in which running a task can create more tasks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ramify.engine.engine import Engine as Engine
    from ramify.engine.resource import AsyncResource as AsyncResource
    from ramify.engine.resource import Resource as Resource
    from ramify.engine.rows import ResultRow as ResultRow
    from ramify.engine.run import Run as Run
    from ramify.engine.task import AsyncSpawns as AsyncSpawns
    from ramify.engine.task import Spawns as Spawns
    from ramify.engine.task import Task as Task
    from ramify.engine.tasks import Tasks as Tasks
    from ramify.errors import BadPayload as BadPayload
    from ramify.errors import ConfigError as ConfigError
    from ramify.errors import RamifyError as RamifyError
    from ramify.errors import RunCancelled as RunCancelled
    from ramify.errors import RunEnded as RunEnded
    from ramify.errors import RunFailed as RunFailed
    from ramify.errors import RunForgotten as RunForgotten
    from ramify.errors import RunNeeded as RunNeeded
    from ramify.kernel.control import Defer as Defer
    from ramify.kernel.control import Fatal as Fatal
    from ramify.kernel.control import Return as Return
    from ramify.kernel.current import Current as Current
    from ramify.kernel.current import current as current
    from ramify.kernel.stream import Stream as Stream
    from ramify.model.call import Call as Call
    from ramify.model.outcome import TaskError as TaskError
    from ramify.model.policy import Backoff as Backoff
    from ramify.model.policy import Rate as Rate
    from ramify.model.run import RunState as RunState
    from ramify.shapes.plan import Added as Added

__version__ = "0.1.0"

__all__ = [
    "Added",
    "AsyncResource",
    "AsyncSpawns",
    "Backoff",
    "BadPayload",
    "Call",
    "ConfigError",
    "Current",
    "Defer",
    "Engine",
    "Fatal",
    "RamifyError",
    "Rate",
    "Resource",
    "ResultRow",
    "Return",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunForgotten",
    "RunNeeded",
    "RunState",
    "Spawns",
    "Stream",
    "Task",
    "TaskError",
    "Tasks",
    "__version__",
    "current",
]

# Where each name lives. They are imported when they are first used, so that `import ramify` alone costs nothing.
_HOMES = {
    "ramify.engine.engine": ("Engine",),
    "ramify.engine.resource": ("AsyncResource", "Resource"),
    "ramify.engine.rows": ("ResultRow",),
    "ramify.engine.run": ("Run",),
    "ramify.engine.task": ("AsyncSpawns", "Spawns", "Task"),
    "ramify.engine.tasks": ("Tasks",),
    "ramify.errors": (
        "BadPayload",
        "ConfigError",
        "RamifyError",
        "RunCancelled",
        "RunEnded",
        "RunFailed",
        "RunForgotten",
        "RunNeeded",
    ),
    "ramify.kernel.control": ("Defer", "Fatal", "Return"),
    "ramify.kernel.current": ("Current", "current"),
    "ramify.kernel.stream": ("Stream",),
    "ramify.model.call": ("Call",),
    "ramify.model.outcome": ("TaskError",),
    "ramify.model.policy": ("Backoff", "Rate"),
    "ramify.model.run": ("RunState",),
    "ramify.shapes.plan": ("Added",),
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
