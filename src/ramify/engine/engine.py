"""The engine: the object users hold. It knows their task functions and one store, and puts them to work.

Promises: making an engine does no I/O; the store is opened when it is first needed, once. After a kill the same
`engine.run(...)` line goes on where the work was.

It composes and delegates: what a start means is in `shapes/start.py`, the work in `kernel/`, what can be done with a
run in `run.py`.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ramify.engine.given import check_count, level_of
from ramify.engine.importing import check_not_importing
from ramify.engine.library import Library
from ramify.engine.lookout import Lookout
from ramify.engine.place import folder_now
from ramify.engine.resource import close_all
from ramify.engine.run import Run
from ramify.engine.stir import Stir
from ramify.engine.stopping import stopping_well
from ramify.engine.tasks import Tasks
from ramify.engine.telling import StopTeller, Teller, say
from ramify.engine.working import Working
from ramify.errors import ConfigError, UnknownRun
from ramify.inspect.find import every_run, named_run
from ramify.kernel.ids import Ids
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.settings import MOST_PROCESSES, MOST_THREADS, Settings
from ramify.kernel.signals import Listener, Signals
from ramify.model.call import Call
from ramify.model.run import Follows, Order, RunState
from ramify.model.stray import instead_of_call
from ramify.shapes.plan import Plan
from ramify.shapes.start import Ask, Begun, Bounds, How, begin, chain, until_answered
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.open import Durability, open_store

if TYPE_CHECKING:
    from ramify.kernel.kernel import Kernel

R = TypeVar("R")

OrderName = Literal["rounds", "any", "depth-first"]
#: A run to follow: its handle, its name or its id.
Leading = Run[Any] | str | int

#: Runs are listed by id: those that several programs start are in order of time to so many seconds.
IN_ORDER = 1.0
#: The runs that this process works on, by store, so that a second start knows they are not left behind.
_busy: set[tuple[object, int]] = set()


class Engine(Tasks):
    """A set of tasks with a store to keep them in: `Engine("walk.db")`. `include` takes sets made with `Tasks()`.

    A relative file is in the folder in which the engine was made, for its worker processes too, wherever they go.
    `durability="power"`: every commit survives a power cut; `"process"`: everything but that, and faster. `version` is
    your own program's, shown with its processes. What tasks log is stored from `log_level` on ("DEBUG", or a number),
    at most `log_lines` lines of each attempt. The level of the root logger does not matter for that, one of
    a logger's own does.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] = "ramify.db",
        *,
        include: Iterable[Tasks] = (),
        version: str | None = None,
        durability: Durability = "power",
        log_level: int | str = "INFO",
        log_lines: int = 1_000,
    ) -> None:
        if isinstance(include, Tasks):
            raise ConfigError("include: give a list of sets, such as include=[jobs]")
        check_count("log_lines", log_lines)
        super().__init__(include=include)
        self.url = store
        #: Where a relative file is, whatever becomes the folder of the process before it is opened.
        self._folder = folder_now()
        self.version = version
        self.durability: Durability = durability
        self._log_level, self._log_lines = level_of(log_level), log_lines
        #: Whether a store that is not there is made; a worker process makes none.
        self.creates = True
        #: Where an engine says which store it is on and what a start came to: the log, and a terminal if there is one.
        self.say: Callable[[str], None] = say
        #: Hears of the run that `run` is about to work on, before the work begins.
        self.on_begun: Callable[[Run[Any]], None] | None = None
        #: For tests: does the work of `run` on these runs, in place of threads and processes.
        self.work_on: Callable[[Sequence[int]], None] | None = None
        #: What waits of this engine sleep on.
        self.stir = Stir()
        #: Workers inside this program, while there are any.
        self.workers: set[Working] = set()
        self._opened: list[Store] = []
        self._ids: Ids | None = None
        #: Puts signals into words; a worker process hands them to its crew instead.
        self.teller: Listener = Teller(lambda text: self.say(text), self._warn)
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()
        self._users = 0
        self._let_go = weakref.finalize(self, _close, self._opened)

    # the store

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        with self._lock:
            if not self._opened:
                opened = open_store(self.url, durability=self.durability, create=self.creates, folder=self._folder)
                self._opened.append(opened)
                self._ids = None
            return self._opened[0]

    def take_ids(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of so many contiguous ids of the store, for what comes from outside; see `Ids.take`."""
        with self._lock:
            store = self.store
            if self._ids is None:
                self._ids = Ids(lambda count: until_answered(lambda: store.reserve(count)), 16, 1_024)
            ids = self._ids
        return ids.take(many, above, younger)

    def close(self) -> None:
        """Close the store and the resources. It is opened again when it is next needed."""
        close_all(self.resources())
        with self._lock:
            _close(self._opened)

    def use(self, store: Store) -> None:
        """Work on this store from now on, whatever the engine was made with; for tests."""
        with self._lock:
            _close(self._opened)
            self._opened.append(store)
            self._ids = None

    # runs

    def run(
        self,
        root: Call[R] | Iterable[Call[R]] | Plan[R],
        *,
        name: str | None = None,
        again: bool = False,
        order: OrderName = "rounds",
        params: object = None,
        threads: int | None = None,
        processes: int = 0,
        follows: Leading | tuple[Leading, int] | None = None,
        max_running: int | None = None,
        max_tasks: int | None = None,
        deadline: timedelta | datetime | None = None,
        progress: bool = False,
    ) -> Run[R]:
        """Run a call and everything that grows out of it, to the end, and give its handle.

        With a name, the same line goes on with the unfinished run after a kill; a finished one is given back as it is,
        and `again=True` starts the next generation. Without one, it goes on with the unfinished run of the same roots
        if the program that began it is gone.

        At most `max_running` of its tasks run at a time, in all processes together. With more than `max_tasks` it is
        halted. At its `deadline`, a moment with its time zone or a `timedelta` from its beginning, it fails if it has
        not ended; what runs then finishes or is cancelled.

        `threads=None` adapts, 0 runs everything here, one task after the other. `progress=True` shows how far it is: in
        place on a terminal (standard error), elsewhere a line in the log now and then.
        """
        check_not_importing("run")
        check_count("threads", 0 if threads is None else threads, MOST_THREADS)
        check_count("processes", processes, MOST_PROCESSES)
        if processes and self.work_on is None:
            from ramify.engine.supervise import place_for_others

            # Before anything is stored: a run that was refused is not there.
            place_for_others(self)
        bounds = Bounds(max_running, max_tasks, deadline)
        ask = self._ask(root, order, follows, name=name, again=again, params=params, bounds=bounds, stays=True)
        begun = self._begin(ask)
        run: Run[R] = Run(self, begun.run.id, begun.how, begun.roots)
        if self.on_begun is not None:
            self.on_begun(run)
        if begun.how is not How.FINISHED:
            with self._showing(run, progress, in_place=threads != 0):
                self._work_on(run, threads, processes)
        return run

    def start(
        self,
        root: Call[R] | Iterable[Call[R]] | Plan[R],
        *,
        name: str | None = None,
        again: bool = False,
        order: OrderName = "rounds",
        params: object = None,
        follows: Leading | tuple[Leading, int] | None = None,
        max_running: int | None = None,
        max_tasks: int | None = None,
        deadline: timedelta | datetime | None = None,
    ) -> Run[R]:
        """Register a run and leave the work to others: `engine.working()` here, or `ramify worker` elsewhere."""
        check_not_importing("start")
        bounds = Bounds(max_running, max_tasks, deadline)
        ask = self._ask(root, order, follows, name=name, again=again, params=params, bounds=bounds, stays=False)
        begun = self._begin(ask)
        return Run(self, begun.run.id, begun.how, begun.roots)

    def find(self, name: str) -> Run[Any] | None:
        """The newest run of that name; None when there is none."""
        if not isinstance(name, str):
            raise ConfigError(f"find({name!r}): give the name of a run")
        found = named_run(self.store.reads, name)
        return None if found is None else Run(self, found.id)

    def runs(self, state: RunState | None = None) -> Iterator[Run[Any]]:
        """All runs of the store, or those in one state, the newest first; read page by page."""
        return (Run(self, found.id) for found in every_run(self.store.reads, state, newest_first=True))

    def working(
        self, *, queues: Iterable[str] | None = None, threads: int | None = None, processes: int = 0
    ) -> Working:
        """Workers inside your own program: `with engine.working():` or `async with engine.working():`.

        They serve every run of the store, in threads of this process, or in so many processes of their own.
        """
        check_not_importing("working")
        check_count("threads", 0 if threads is None else threads, MOST_THREADS)
        check_count("processes", processes, MOST_PROCESSES)
        if threads == 0:
            raise ConfigError("working(threads=0): there must be a thread to work in; leave it out, or give 1 or more")
        if isinstance(queues, str):
            raise ConfigError(f"working(queues={queues!r}): give a list of names")
        chosen = None if queues is None else frozenset(queues)
        return Working(self, Settings(queues=chosen, threads=threads), processes)

    # what it is made of

    def kernel(
        self,
        settings: Settings,
        *,
        machine: Machine = HERE,
        on_raise: Callable[[BaseException], None] = lambda error: None,
    ) -> Kernel:
        """A kernel for this engine's tasks and store, ready to run or start; the caller looks after resources."""
        from ramify.kernel.kernel import Kernel

        settings = replace(settings, version=self.version or "", log_level=self._log_level, log_lines=self._log_lines)
        handlers = self.handlers()
        library = Library(self.store, handlers, self.resources())
        made = Kernel(self.store, handlers, library, settings, machine=machine, on_raise=on_raise)
        made.signals.listen(self.stir)
        for listener in (self.teller, *self._listeners):
            made.signals.listen(listener)
        made.signals.listen(Lookout(self.store, settings.runs, made.signals.send))
        return made

    def listen(self, listener: Listener) -> None:
        """Hear every signal of the kernels that this engine makes from now on, in their threads."""
        self._listeners.append(listener)

    def signals(self) -> Signals:
        """Signals that this engine's listeners hear, for workers in other processes."""
        made = Signals()
        for listener in (self.teller, *self._listeners):
            made.listen(listener)
        return made

    @contextmanager
    def using_resources(self) -> Iterator[None]:
        """Whoever runs tasks does so inside this; when the last one is through, resources are closed."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                is_last = not self._users
            if is_last:
                close_all(self.resources())

    def lend_a_hand(self, run: Run[Any]) -> None:
        """In tests: somebody waits for a run, and nobody works on it, so it is worked on here."""
        if self.work_on is not None and not self._users:
            self.work_on([each.id for each in chain(self.store, run.stored) if not each.state.is_end])

    def check_known(self, calls: Iterable[Call[Any]]) -> None:
        """Refuse calls of tasks that this engine does not have."""
        known = self.table()
        for call in calls:
            if not isinstance(call, Call):
                raise ConfigError(f"a call is needed, and was given {instead_of_call(call)}")
            if call.kind not in known:
                raise ConfigError(f"this engine has no task {call.kind!r}; include its set: Engine(include=[...])")

    def _ask(self, root: object, order: OrderName, follows: Leading | tuple[Leading, int] | None, **asked: Any) -> Ask:
        tasks = self.table().values() if inspect.isgenerator(root) else ()
        shape, plan = plan_of(root, {inspect.unwrap(task.fn).__code__ for task in tasks})
        self.check_known(plan.calls)
        try:
            chosen = Order(order)
        except ValueError:
            raise ConfigError(f'order={order!r}: give "rounds", "any" or "depth-first"') from None
        older = {task.kind: task.aliases for task in self.table().values()}
        busy = {run for place, run in _busy if place == self._place()}
        followed = None if follows is None else self._follows(follows)
        return Ask(shape, plan, order=chosen, follows=followed, older=older, busy=busy, **asked)

    def _follows(self, follows: Leading | tuple[Leading, int]) -> Follows:
        leader, lead = follows if isinstance(follows, tuple) else (follows, 1)
        if isinstance(lead, bool) or not isinstance(lead, int) or lead < 0:
            raise ConfigError(f"follows=(…, {lead!r}): the lead is a whole number of rounds, 0 or more")
        match leader:
            case Run():
                return Follows(leader.id, lead)
            case str():
                found = named_run(self.store.reads, leader)
                if found is None:
                    raise UnknownRun(f"follows={leader!r}: no run has that name; start it first")
                return Follows(found.id, lead)
            case int():
                return Follows(self.store.reads.run(leader).id, lead)
        raise ConfigError(f"follows={follows!r}: give a run, its name or its id, alone or with a lead: (other, 1)")

    def _begin(self, ask: Ask) -> Begun:
        store = self.store
        begun = begin(store, ask, lambda many: self.take_ids(many, younger=IN_ORDER))
        about = store.describe()
        self.say(f"{begun.said} [{about.name} {about.place}: keeps {about.keeps}; lacks {about.lacks}]")
        return begun

    def _work_on(self, run: Run[Any], threads: int | None, processes: int) -> None:
        # Those it follows are worked on too, or it would wait for ever.
        together = [each.id for each in chain(self.store, run.stored) if not each.state.is_end]
        if self.work_on is not None:
            self.work_on(together)
            return
        mark = {(self._place(), each) for each in together}
        _busy.update(mark)
        try:
            if processes:
                from ramify.engine.supervise import supervise

                stopped = supervise(self, together, processes, threads)
                if not run.ended:
                    stopped.raise_it()
                return
            settings = Settings(runs=frozenset(together), until_ended=True, threads=threads)
            with self.using_resources():
                kernel = self.kernel(settings)
                if threads == 0:
                    # Everything happens in this thread, so a signal interrupts it where it is, as in any program.
                    kernel.run()
                    return
                with stopping_well(kernel.stop, self.say) as stopped:
                    kernel.signals.listen(StopTeller(self.say, stopped.was_asked))
                    # Beside this thread, which hears signals and must not be caught in a task.
                    kernel.start()
                    kernel.join()
            if not run.ended:
                stopped.raise_it()
        finally:
            _busy.difference_update(mark)

    def _showing(self, run: Run[Any], progress: bool, *, in_place: bool) -> AbstractContextManager[object]:
        if not progress:
            return nullcontext()
        from ramify.inspect.progress import beside

        # A debugger needs the terminal for itself when everything runs in this thread.
        return beside(self.store, run.id, self.say, in_place=in_place)

    def _warn(self, text: str) -> None:
        if self.say is say:
            say(text, logging.WARNING)
        else:
            self.say(text)

    def _place(self) -> object:
        about = self.store.describe()
        return (about.name, about.place) if about.shared else id(self.store)


def _close(opened: list[Store]) -> None:
    while opened:
        opened.pop().close()
