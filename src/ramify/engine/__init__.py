"""The engine: what users hold. `engine.py` composes; `task.py`, `run.py` and `resource.py` are what they meet."""

from ramify.engine.engine import Engine
from ramify.engine.processes.importing import importing
from ramify.engine.resource import AsyncResource, Resource
from ramify.engine.runs.retrying import Retried
from ramify.engine.runs.run import Run
from ramify.engine.tasks.task import AsyncSpawns, Spawns, Task
from ramify.engine.tasks.tasks import Tasks
from ramify.model.outcome import TaskError

__all__ = [
    "AsyncResource",
    "AsyncSpawns",
    "Engine",
    "Resource",
    "Retried",
    "Run",
    "Spawns",
    "Task",
    "TaskError",
    "Tasks",
    "importing",
]
