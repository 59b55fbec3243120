"""Doing: this program works on a run until it has ended, and on all that it started, as `engine.run` promises.

Does not wait for runs that others work on: `Run.wait` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramify.engine.busy import Busy
from ramify.engine.others import launched_by
from ramify.engine.stopping import stopping_well
from ramify.engine.telling import StopTeller
from ramify.kernel.settings import Settings
from ramify.model.run import RunState, StoredRun
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

    def work_on(self, run: StoredRun) -> RunState | None:
        """Work until it has ended, and return as what, if that is known. What stopped this program before is raised."""
        # Those it follows are worked on too, or it would wait for ever.
        unended = [each for each in chain(self._inside.store, run) if not each.state.is_end]
        together = [each.id for each in unended]
        if self._inside.work_on is not None:
            self._inside.work_on(together)
            return None
        self._busy.add(self._inside.identity, together)
        try:
            if self._processes:
                from ramify.engine.supervise import supervise

                stopped = supervise(self._inside, together, self._processes, self._threads)
                if not self._has_ended(run):
                    stopped.raise_it()
                return None
            settings = Settings(runs=frozenset(together), until_ended=True, threads=self._threads)
            with self._inside.using_resources():
                kernel = self._inside.kernel(settings, unended)
                if self._threads == 0:
                    # Everything happens in this thread, so a signal interrupts it where it is, as in any program.
                    kernel.run()
                    return kernel.ended.get(run.id)
                with stopping_well(kernel.stop, self._inside.say) as stopped:
                    kernel.signals.listen(StopTeller(self._inside.say, stopped))
                    # Beside this thread, which hears signals and must not be caught in a task.
                    kernel.start()
                    kernel.join()
            ended = kernel.ended.get(run.id)
            if ended is None and not self._has_ended(run):
                stopped.raise_it()
            return ended
        finally:
            self._busy.remove(self._inside.identity, together)

    def work_on_launched(self, run: int) -> None:
        """Work on the runs that a run has started: perhaps nobody else does."""
        reads = self._inside.store.reads
        for id in launched_by(reads, run):
            launched = reads.run(id)
            if not launched.state.is_end:
                self.work_on(launched)
            self.work_on_launched(id)

    def _has_ended(self, run: StoredRun) -> bool:
        return self._inside.store.reads.run(run.id).state.is_end
