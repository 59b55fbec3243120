"""A queue of jobs, as its name. What can be done with the jobs of a queue as a whole is done with its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramify.engine.runs.run import Run
from ramify.shapes.jobs import queue_called

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


class Queue:
    """The handle of a queue: `engine.queue("mail")`."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self.name = name

    @property
    def run(self) -> Run[Any] | None:
        """The endless run of this queue: pause it, count its jobs, or cancel all of them. None before the first job."""
        found = queue_called(self._runtime.store, self.name)
        return None if found is None else Run(self._runtime, found.id)

    @property
    def pending(self) -> int:
        """The number of its jobs that have not ended, with the tasks they spawned."""
        return self._runtime.enqueuing.room.pending(self.name)

    def __repr__(self) -> str:
        return f"<queue {self.name!r}: {self.pending} pending>"
