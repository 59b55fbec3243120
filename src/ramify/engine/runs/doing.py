"""Doing: this program works on a run until it has ended, and on all that it started, as `engine.run` promises.

Does not wait for runs that others work on: `Run.wait` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramify.engine.processes.signal_text import StopTeller
from ramify.engine.processes.stopping import stopping_well
from ramify.engine.runs.busy import Busy
from ramify.engine.runs.launched_runs import launched_by
from ramify.kernel.settings import Settings
from ramify.model.run import RunState, StoredRun
from ramify.shapes.start import chain

if TYPE_CHECKING:
    from ramify.engine.runtime import Runtime


class Doing:
    """Works on runs of an engine, in threads or worker processes, and tells others of this program that it does."""

    def __init__(self, runtime: Runtime, busy: Busy, threads: int | None, processes: int) -> None:
        self._runtime = runtime
        self._busy = busy
        self._threads = threads
        self._processes = processes

    def work_on(self, run: StoredRun) -> RunState | None:
        """Work until it has ended, and return as what, if that is known. What stopped this program before is raised."""
        # Those it follows are worked on too, or it would wait for ever.
        unended = [each for each in chain(self._runtime.store, run) if not each.state.is_end]
        together = [each.id for each in unended]
        if self._runtime.work_on is not None:
            self._runtime.work_on(together)
            return None
        self._busy.add(self._runtime.identity, together)
        try:
            if self._processes:
                from ramify.engine.processes.supervise import supervise

                stopped = supervise(self._runtime, together, self._processes, self._threads)
                if not self._has_ended(run):
                    stopped.raise_it()
                return None
            settings = Settings(runs=frozenset(together), until_ended=True, threads=self._threads)
            with self._runtime.using_resources():
                kernel = self._runtime.kernel(settings, unended)
                if self._threads == 0:
                    # Everything happens in this thread, so a signal interrupts it where it is, as in any program.
                    kernel.run()
                    return kernel.ended.get(run.id)
                with stopping_well(kernel.stop, self._runtime.say) as stopped:
                    kernel.signals.listen(StopTeller(self._runtime.say, stopped))
                    # Beside this thread, which hears signals and must not be caught in a task.
                    kernel.start()
                    kernel.join()
            ended = kernel.ended.get(run.id)
            if ended is None and not self._has_ended(run):
                stopped.raise_it()
            return ended
        finally:
            self._busy.remove(self._runtime.identity, together)

    def work_on_launched(self, run: int) -> None:
        """Work on the runs that a run has started: perhaps nobody else does."""
        reads = self._runtime.store.reads
        for id in launched_by(reads, run):
            launched = reads.run(id)
            if not launched.state.is_end:
                self.work_on(launched)
            self.work_on_launched(id)

    def _has_ended(self, run: StoredRun) -> bool:
        return self._runtime.store.reads.run(run.id).state.is_end
