"""Ramify: a durable task engine in which running a task can create more tasks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ramify.engine.deciding import Resolved as Resolved
    from ramify.engine.engine import Engine as Engine
    from ramify.engine.job import Job as Job
    from ramify.engine.job import JobProgress as JobProgress
    from ramify.engine.keyed import TaskState as TaskState
    from ramify.engine.queue import Queue as Queue
    from ramify.engine.resource import AsyncResource as AsyncResource
    from ramify.engine.resource import Resource as Resource
    from ramify.engine.retrying import Retried as Retried
    from ramify.engine.rows import ResultRow as ResultRow
    from ramify.engine.run import Run as Run
    from ramify.engine.stopping import Terminated as Terminated
    from ramify.engine.task import AsyncSpawns as AsyncSpawns
    from ramify.engine.task import Spawns as Spawns
    from ramify.engine.task import Task as Task
    from ramify.engine.task import TaskDecorator as TaskDecorator
    from ramify.engine.tasks import Tasks as Tasks
    from ramify.engine.timeline import RunSummary as RunSummary
    from ramify.engine.timeline import TimelineRow as TimelineRow
    from ramify.engine.working import Working as Working
    from ramify.errors import BadPayload as BadPayload
    from ramify.errors import ConfigError as ConfigError
    from ramify.errors import GateClosed as GateClosed
    from ramify.errors import JobCancelled as JobCancelled
    from ramify.errors import JobFailed as JobFailed
    from ramify.errors import NotInstalled as NotInstalled
    from ramify.errors import NotKnownYet as NotKnownYet
    from ramify.errors import OutsideTask as OutsideTask
    from ramify.errors import OverwriteError as OverwriteError
    from ramify.errors import QueueFull as QueueFull
    from ramify.errors import RamifyError as RamifyError
    from ramify.errors import Reaped as Reaped
    from ramify.errors import RunCancelled as RunCancelled
    from ramify.errors import RunEnded as RunEnded
    from ramify.errors import RunFailed as RunFailed
    from ramify.errors import RunForgotten as RunForgotten
    from ramify.errors import RunNeeded as RunNeeded
    from ramify.errors import SchemaTooNew as SchemaTooNew
    from ramify.errors import StaleClaim as StaleClaim
    from ramify.errors import StaleStamp as StaleStamp
    from ramify.errors import StoreBroken as StoreBroken
    from ramify.errors import StoreError as StoreError
    from ramify.errors import StoreRefused as StoreRefused
    from ramify.errors import StoreUnavailable as StoreUnavailable
    from ramify.errors import UnknownRun as UnknownRun
    from ramify.inspect.health import Health as Health
    from ramify.inspect.health import LateWork as LateWork
    from ramify.inspect.health import Problem as Problem
    from ramify.inspect.health import ProcessHealth as ProcessHealth
    from ramify.inspect.health import ProcessState as ProcessState
    from ramify.inspect.health import QueueHealth as QueueHealth
    from ramify.inspect.health import ReadyTask as ReadyTask
    from ramify.inspect.health import StoreHealth as StoreHealth
    from ramify.inspect.health import StuckRun as StuckRun
    from ramify.inspect.history import UnknownTask as UnknownTask
    from ramify.inspect.status import Counts as Counts
    from ramify.inspect.status import Phase as Phase
    from ramify.kernel.context import Context as Context
    from ramify.kernel.control import Defer as Defer
    from ramify.kernel.control import Fatal as Fatal
    from ramify.kernel.control import Return as Return
    from ramify.kernel.control import Skip as Skip
    from ramify.kernel.current import Current as Current
    from ramify.kernel.current import current as current
    from ramify.kernel.stream import Source as Source
    from ramify.kernel.stream import Stream as Stream
    from ramify.kernel.surroundings import Child as Child
    from ramify.kernel.surroundings import CurrentRun as CurrentRun
    from ramify.kernel.surroundings import Leader as Leader
    from ramify.model.call import Call as Call
    from ramify.model.event import Status as Status
    from ramify.model.job import JobState as JobState
    from ramify.model.join import Ends as Ends
    from ramify.model.mark import Settled as Settled
    from ramify.model.outcome import Failure as Failure
    from ramify.model.outcome import TaskError as TaskError
    from ramify.model.policy import Backoff as Backoff
    from ramify.model.policy import Rate as Rate
    from ramify.model.run import RunState as RunState
    from ramify.model.slot import Slot as Slot
    from ramify.shapes.dag.dag import Dag as Dag
    from ramify.shapes.dag.node import Node as Node
    from ramify.shapes.dag.part import EarlierRun as EarlierRun
    from ramify.shapes.dag.start import DagPlan as DagPlan
    from ramify.shapes.dag.wait import OtherRun as OtherRun
    from ramify.shapes.pipeline.pipeline import Pipeline as Pipeline
    from ramify.shapes.pipeline.pipeline import PipelinePlan as PipelinePlan
    from ramify.shapes.pipeline.route import Route as Route
    from ramify.shapes.pipeline.steps import Steps as Steps
    from ramify.shapes.pipeline.steps import steps as steps
    from ramify.shapes.plan import Added as Added
    from ramify.shapes.plan import Plan as Plan
    from ramify.shapes.start import How as How
    from ramify.store.error_groups import ErrorGroup as ErrorGroup
    from ramify.store.reads import Table as Table

__version__ = "0.1.0"

__all__ = [
    "Added",
    "AsyncResource",
    "AsyncSpawns",
    "Backoff",
    "BadPayload",
    "Call",
    "Child",
    "ConfigError",
    "Context",
    "Counts",
    "Current",
    "CurrentRun",
    "Dag",
    "DagPlan",
    "Defer",
    "EarlierRun",
    "Ends",
    "Engine",
    "ErrorGroup",
    "Failure",
    "Fatal",
    "GateClosed",
    "Health",
    "How",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobProgress",
    "JobState",
    "LateWork",
    "Leader",
    "Node",
    "NotInstalled",
    "NotKnownYet",
    "OtherRun",
    "OutsideTask",
    "OverwriteError",
    "Phase",
    "Pipeline",
    "PipelinePlan",
    "Plan",
    "Problem",
    "ProcessHealth",
    "ProcessState",
    "Queue",
    "QueueFull",
    "QueueHealth",
    "RamifyError",
    "Rate",
    "ReadyTask",
    "Reaped",
    "Resolved",
    "Resource",
    "ResultRow",
    "Retried",
    "Return",
    "Route",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunForgotten",
    "RunNeeded",
    "RunState",
    "RunSummary",
    "SchemaTooNew",
    "Settled",
    "Skip",
    "Slot",
    "Source",
    "Spawns",
    "StaleClaim",
    "StaleStamp",
    "Status",
    "Steps",
    "StoreBroken",
    "StoreError",
    "StoreHealth",
    "StoreRefused",
    "StoreUnavailable",
    "Stream",
    "StuckRun",
    "Table",
    "Task",
    "TaskDecorator",
    "TaskError",
    "TaskState",
    "Tasks",
    "Terminated",
    "TimelineRow",
    "UnknownRun",
    "UnknownTask",
    "Working",
    "__version__",
    "current",
    "steps",
]

# Where each name lives. They are imported when they are first used, so that `import ramify` alone costs nothing.
_HOMES = {
    "ramify.engine.deciding": ("Resolved",),
    "ramify.engine.engine": ("Engine",),
    "ramify.engine.keyed": ("TaskState",),
    "ramify.engine.resource": (
        "AsyncResource",
        "Resource",
    ),
    "ramify.engine.retrying": ("Retried",),
    "ramify.engine.rows": ("ResultRow",),
    "ramify.engine.job": (
        "Job",
        "JobProgress",
    ),
    "ramify.engine.queue": ("Queue",),
    "ramify.engine.run": ("Run",),
    "ramify.engine.stopping": ("Terminated",),
    "ramify.engine.task": (
        "AsyncSpawns",
        "Spawns",
        "Task",
        "TaskDecorator",
    ),
    "ramify.engine.tasks": ("Tasks",),
    "ramify.engine.timeline": (
        "RunSummary",
        "TimelineRow",
    ),
    "ramify.engine.working": ("Working",),
    "ramify.errors": (
        "BadPayload",
        "ConfigError",
        "GateClosed",
        "JobCancelled",
        "JobFailed",
        "NotInstalled",
        "NotKnownYet",
        "OutsideTask",
        "OverwriteError",
        "QueueFull",
        "RamifyError",
        "Reaped",
        "RunCancelled",
        "RunEnded",
        "RunFailed",
        "RunForgotten",
        "RunNeeded",
        "SchemaTooNew",
        "StaleClaim",
        "StaleStamp",
        "StoreBroken",
        "StoreError",
        "StoreRefused",
        "StoreUnavailable",
        "UnknownRun",
        "UnknownTask",
    ),
    "ramify.inspect.health": (
        "Health",
        "LateWork",
        "Problem",
        "ProcessHealth",
        "ProcessState",
        "QueueHealth",
        "ReadyTask",
        "StoreHealth",
        "StuckRun",
    ),
    "ramify.inspect.history": ("UnknownTask",),
    "ramify.inspect.status": (
        "Counts",
        "Phase",
    ),
    "ramify.kernel.context": ("Context",),
    "ramify.kernel.control": (
        "Defer",
        "Fatal",
        "Return",
        "Skip",
    ),
    "ramify.kernel.current": (
        "Current",
        "current",
    ),
    "ramify.kernel.stream": (
        "Source",
        "Stream",
    ),
    "ramify.kernel.surroundings": (
        "Child",
        "CurrentRun",
        "Leader",
    ),
    "ramify.model.call": ("Call",),
    "ramify.model.job": ("JobState",),
    "ramify.model.event": ("Status",),
    "ramify.model.join": ("Ends",),
    "ramify.model.mark": ("Settled",),
    "ramify.model.outcome": (
        "Failure",
        "TaskError",
    ),
    "ramify.model.policy": (
        "Backoff",
        "Rate",
    ),
    "ramify.model.run": ("RunState",),
    "ramify.model.slot": ("Slot",),
    "ramify.shapes.dag.dag": ("Dag",),
    "ramify.shapes.dag.node": ("Node",),
    "ramify.shapes.dag.part": ("EarlierRun",),
    "ramify.shapes.dag.wait": ("OtherRun",),
    "ramify.shapes.dag.start": ("DagPlan",),
    "ramify.shapes.pipeline.pipeline": (
        "Pipeline",
        "PipelinePlan",
    ),
    "ramify.shapes.pipeline.route": ("Route",),
    "ramify.shapes.pipeline.steps": (
        "Steps",
        "steps",
    ),
    "ramify.shapes.plan": (
        "Added",
        "Plan",
    ),
    "ramify.shapes.start": ("How",),
    "ramify.store.error_groups": ("ErrorGroup",),
    "ramify.store.reads": ("Table",),
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
