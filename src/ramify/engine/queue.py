"""A queue of jobs, as its name. What can be done with the jobs of a queue as a whole is done with its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramify.engine.run import Run
from ramify.shapes.jobs import queue_called

if TYPE_CHECKING:
    from ramify.engine.inside import Inside


class Queue:
    """The handle of a queue: `engine.queue("mail")`."""

    def __init__(self, inside: Inside, name: str) -> None:
        self._inside = inside
        self.name = name

    @property
    def run(self) -> Run[Any] | None:
        """The endless run of this queue: pause it, count its jobs, or cancel all of them. None before the first job."""
        found = queue_called(self._inside.store, self.name)
        return None if found is None else Run(self._inside, found.id)

    @property
    def pending(self) -> int:
        """The number of its jobs that have not ended, with the tasks they spawned."""
        return self._inside.enqueuing.room.pending(self.name)

    def __repr__(self) -> str:
        return f"<queue {self.name!r}: {self.pending} pending>"
