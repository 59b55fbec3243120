"""Doing: this program works on a run until it has ended, and on all that it started, as `engine.run` promises.

Does not wait for runs that others work on: `Run.wait` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramify.engine.busy import Busy
from ramify.engine.others import launched_by
from ramify.engine.run import Run
from ramify.engine.stopping import stopping_well
from ramify.engine.telling import StopTeller
from ramify.kernel.settings import Settings
from ramify.shapes.start import chain

if TYPE_CHECKING:
    from ramify.engine.inside import Inside


class Doing:
    """Works on runs of an engine, in threads or worker processes, and tells others of this program that it does."""

    def __init__(self, inside: Inside, busy: Busy, threads: int | None, processes: int) -> None:
        self._inside = inside
        self._busy = busy
        self._threads = threads
        self._processes = processes

    def work_on(self, run: Run[Any]) -> None:
        """Work until it has ended. What stopped this program before is raised."""
        # Those it follows are worked on too, or it would wait for ever.
        together = [each.id for each in chain(self._inside.store, run._stored) if not each.state.is_end]
        if self._inside.work_on is not None:
            self._inside.work_on(together)
            return
        self._busy.add(self._inside.identity, together)
        try:
            if self._processes:
                from ramify.engine.supervise import supervise

                stopped = supervise(self._inside, together, self._processes, self._threads)
                if not run.ended:
                    stopped.raise_it()
                return
            settings = Settings(runs=frozenset(together), until_ended=True, threads=self._threads)
            with self._inside.using_resources():
                kernel = self._inside.kernel(settings)
                if self._threads == 0:
                    # Everything happens in this thread, so a signal interrupts it where it is, as in any program.
                    kernel.run()
                    return
                with stopping_well(kernel.stop, self._inside.say) as stopped:
                    kernel.signals.listen(StopTeller(self._inside.say, stopped))
                    # Beside this thread, which hears signals and must not be caught in a task.
                    kernel.start()
                    kernel.join()
            if not run.ended:
                stopped.raise_it()
        finally:
            self._busy.remove(self._inside.identity, together)

    def work_on_launched(self, run: Run[Any]) -> None:
        """Work on the runs that a run has started: perhaps nobody else does."""
        for id in launched_by(self._inside.store.reads, run.id):
            launched: Run[Any] = Run(self._inside, id)
            if not launched.ended:
                self.work_on(launched)
            self.work_on_launched(launched)
