"""The inside of an engine: its store, and what workers, handles of runs, the command line and tests need of it.

Promises: the store is opened when it is first needed, once; so a setting changed before that (`url`, `durability`,
`creates`) holds. Resources are closed when the last one who runs tasks is through.

Users do not meet it: what they may call is in `engine.py`. It decides nothing about runs.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ramify.coordination.guest import Guest
from ramify.coordination.locks import Locks
from ramify.coordination.pump import Pump
from ramify.engine.jobs.enqueuing import Enqueuing
from ramify.engine.jobs.retention import KEEP_DONE, Janitor
from ramify.engine.library import StoreLibrary
from ramify.engine.limits import declare_limits
from ramify.engine.processes.address import folder_now
from ramify.engine.processes.housekeeping import Housekeeping
from ramify.engine.processes.signal_text import Form, Log, LogLines, Teller, say
from ramify.engine.processes.unknown_kinds import UnknownKinds
from ramify.engine.resource import AnyResource, close_all
from ramify.engine.runs.launched_runs import Others
from ramify.engine.runs.waiting import Watcher
from ramify.engine.tasks.contents import handlers_of, limits_of, resources_of, schedules_of, table_of
from ramify.engine.tasks.limit import QUEUE, TaskLimit
from ramify.engine.tasks.task import AnyTask
from ramify.engine.tasks.tasks import Tasks
from ramify.engine.topics import Topics
from ramify.errors import ConfigError
from ramify.inspect.jobs import standing_of
from ramify.inspect.text import tell
from ramify.inspect.unknown import queues_in, unknown_queue_in_words
from ramify.kernel.attempts.current import current_or_none
from ramify.kernel.core.handler import Handler
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.ids import Ids
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Listener, Signal, Signals
from ramify.model.call import Call
from ramify.model.policy import SECOND
from ramify.model.run import StoredRun
from ramify.model.stray import instead_of_call
from ramify.shapes.cron.declaring import declare
from ramify.shapes.start import chain, until_answered
from ramify.store import forks, here
from ramify.store.contract import Store
from ramify.store.open import Durability, open_store

if TYPE_CHECKING:
    from ramify.engine.processes.working import Working
    from ramify.engine.runs.run import Run
    from ramify.kernel.kernel import Kernel


class Runtime:
    """One engine from inside. `tasks` is the engine itself, as the set of tasks that it is."""

    def __init__(
        self,
        tasks: Tasks,
        url: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        version: str | None = None,
        log_level: int = logging.INFO,
        log_lines: int = 1_000,
    ) -> None:
        self.tasks = tasks
        self.url = url
        #: Where a relative file is, whatever becomes the folder of the process before it is opened.
        self._folder = folder_now()
        self._version = version
        self.durability: Durability = durability
        self._log_level, self._log_lines = log_level, log_lines
        #: Whether a store that is not there is made; a worker process makes none.
        self.creates = True
        #: Where an engine says which store it is on and what a start came to: the log, and a terminal if there is one.
        self.say: Callable[[str], None] = say
        #: Hears of the run that `run` is about to work on, before the work begins.
        self.on_begun: Callable[[Run[Any]], None] | None = None
        #: For tests: does the work of `run` on these runs, in place of threads and processes.
        self.work_on: Callable[[Sequence[int]], None] | None = None
        #: The same for whoever waits for a task of a queue.
        self.work_on_job: Callable[[int, int], None] | None = None
        #: For tests: what is called in place of the functions of tasks, by kind.
        self.stand_ins: Mapping[str, Callable[..., Any]] = {}
        #: Makes a listener that teaches a kernel kinds which are not known when it begins.
        self.teacher: Callable[[Kernel], Listener] | None = None
        #: Queues that the program names besides those of its tasks.
        self.queues: set[str] = set()
        #: Limits of queues, by queue; None where the program lifts one.
        self.queue_limits: dict[str, TaskLimit | None] = {}
        #: When this program was started, or last reloaded by who looks after it, in microseconds since the epoch.
        self.since = time.time_ns() // 1_000
        #: Workers inside this program, while there are any.
        self.workers: set[Working] = set()
        self._opened: list[Store] = []
        self._guests: list[Guest] = []
        self._ids: Ids | None = None
        #: Puts signals into words; a worker process hands them to its crew instead.
        self.teller: Listener = Teller(lambda text: self.say(text), self.complain)
        #: How it writes a log on standard error, and from which level on; worker processes do the same.
        self.log: tuple[Form, int] | None = None
        self._log_to: LogLines | None = None
        #: The trace in which something is started here, as headers.
        self.tracing: Callable[[], Mapping[str, str]] = dict
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()
        self._users = 0
        self.enqueuing = Enqueuing(self)
        self.watcher = Watcher(self)
        self.locks = Locks(self)
        self.topics = Topics(self)
        #: How patient the session is in which this program changes values and holds locks.
        self.guest_settings = Settings()
        self._let_go = weakref.finalize(self, _close, self._opened, self._guests)
        forks.register(self)

    def orphan(self) -> None:
        """In a forked child: what another thread of the parent held is free here. The store refuses by itself."""
        self._lock = threading.RLock()
        self._ids = None
        self._guests.clear()
        self.enqueuing.orphan()
        self.watcher = Watcher(self)

    # its tasks

    def table(self) -> Mapping[str, AnyTask]:
        """Every task by its kind and its older names."""
        return table_of(self.tasks)

    def handlers(self) -> dict[str, Handler]:
        """Return what a kernel needs to run them."""
        return handlers_of(self.tasks, self.stand_ins)

    def keeps(self) -> dict[str, float]:
        """How long results of jobs are kept, by kind, in seconds."""
        jobs = {kind: KEEP_DONE if task.keep is None else task.keep for kind, task in self.table().items()}
        own = {kind: each.declaration.keep / SECOND for each in schedules_of(self.tasks) for kind in each.handlers}
        return {**jobs, **own}

    def unknown_queues(self, named: Iterable[str]) -> list[str]:
        """Return those of some names that neither this program nor anything in its store uses for a queue, in words."""
        known = {task.group.queue for task in self.table().values()} | self.queues | queues_in(self.store.reads)
        return [unknown_queue_in_words(name, known) for name in named if name not in known]

    def resources(self) -> list[AnyResource]:
        """Every resource of its tasks."""
        return resources_of(self.tasks)

    def check_known(self, calls: Iterable[Call[Any]], table: Mapping[str, AnyTask] | None = None) -> None:
        """Refuse calls of tasks that this engine does not have; who has its `table` at hand gives it along."""
        known = self.table() if table is None else table
        for call in calls:
            if not isinstance(call, Call):
                raise ConfigError(f"expected a call, got {instead_of_call(call)}.")
            if call.kind not in known:
                raise ConfigError(f"this engine has no task {call.kind!r}. Include its set: Engine(include=[...]).")

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

    def reserve_ids(self, many: int, above: int = 0, younger: float = math.inf) -> int:
        """The first of so many contiguous ids of the store, for what comes from outside; see `Ids.reserve`."""
        with self._lock:
            store = self.store
            if self._ids is None:
                self._ids = Ids(lambda count: until_answered(lambda: store.reserve(count)), 16, 1_024)
            ids = self._ids
        return ids.reserve(many, above, younger)

    @property
    def guest(self) -> Guest:
        """The session of this program for what it changes outside of tasks; it begins when it is first used."""
        with self._lock:
            store = self.store
            if not self._guests:
                self._guests.append(Guest(store, settings=self.guest_settings))
            return self._guests[0]

    def close(self) -> None:
        """Close the store and the resources. It is opened again when it is next needed."""
        close_all(self.resources())
        self.locks.close()
        with self._lock:
            _close(self._opened, self._guests)

    def use(self, store: Store) -> None:
        """Work on this store from now on, whatever the engine was made with; for tests."""
        with self._lock:
            _close(self._opened, self._guests)
            self._opened.append(store)
            self._ids = None

    # at work

    def kernel(
        self,
        settings: Settings,
        known: Iterable[StoredRun] = (),
        *,
        machine: Machine = HERE,
        on_raise: Callable[[BaseException], None] = lambda error: None,
    ) -> Kernel:
        """A kernel for this engine's tasks and store, ready to run or start; the caller looks after resources.

        Runs that are `known` are not read again.
        """
        from ramify.kernel.kernel import Kernel

        settings = replace(
            settings, version=self._version or "", learns=self.teacher is not None, log_level=self._log_level,
            log_lines=self._log_lines, log_to=self._log_to,
            limited_queues=frozenset(name for name, limit in self.queue_limits.items() if limit is not None),
        )  # fmt: skip
        if settings.runs is None:
            self.declare_schedules()
        handlers = self.handlers()
        self.topics.declare()
        late: list[Listener] = []
        if settings.runs is None or limits_of(self.tasks) or self.queue_limits:
            self.declare_limits(handlers)
        else:
            # A limit that was lifted can wait in a program that only runs something: it need not read before it begins.
            late.append(_once(partial(self.declare_limits, handlers)))
        others = Others(self, handlers, settings.launched)
        library = StoreLibrary(self.store, handlers, self.resources(), others, known)
        housekeeping, pump = Housekeeping(machine), self._pump(settings, machine)
        settings = replace(settings, on_idle=self._idle_with(pump, settings.on_idle))
        made = Kernel(
            self.store,
            handlers,
            library,
            settings,
            machine=machine,
            on_raise=on_raise,
            on_shut=partial(_stop, pump, housekeeping),
        )
        taught = () if self.teacher is None else (self.teacher(made),)
        for listener in (self.teller, *self._listeners, *taught):
            made.signals.listen(listener)
        for listener in late:
            housekeeping.listen(listener)
        housekeeping.listen(UnknownKinds(self.store, settings.runs, made.signals.send))
        if settings.runs is None:
            housekeeping.listen(Janitor(self.store, self.keeps))
        made.signals.listen(housekeeping)
        made.signals.listen(_once(pump.start))
        return made

    def _pump(self, settings: Settings, machine: Machine) -> Pump:
        """The pump beside a kernel: it takes tasks of all queues, and who ends when nothing is ready begins with it."""
        pump = self.topics.pump(machine, is_idle=settings.runs is not None)
        while settings.until_idle and pump.step():
            pass
        return pump

    @staticmethod
    def _idle_with(pump: Pump, on_idle: Callable[[], None] | None) -> Callable[[], None] | None:
        """Return what hears that nothing is ready: not while publications become tasks."""

        def hear() -> None:
            if on_idle is not None and pump.is_through():
                on_idle()

        return None if on_idle is None else hear

    def declare_schedules(self) -> None:
        """Let the schedules of this program be in the store, as it declares them."""
        for said in declare(self.store, schedules_of(self.tasks), self.since, self.by, self.reserve_ids):
            self.say(said)

    def declare_limits(self, knows: Collection[str]) -> None:
        """Let the limits of this program be in the store, which it declares as one that `knows` these kinds."""
        queues = self.queue_limits.items()
        limits = [*limits_of(self.tasks), *(each._stored(queues=[name]) for name, each in queues if each is not None)]
        lifted = [QUEUE + name for name, each in queues if each is None]
        for said in declare_limits(
            self.store, self.guest.send, self.reserve_ids, limits, lifted, knows, self.by, self.since
        ):
            self.say(said)

    @property
    def by(self) -> str:
        """The name under which this program declares something."""
        version = f" {self._version}" if self._version else ""
        return f"pid {os.getpid()} on {here.host()}{version}"

    def write_log(self, form: Form, level: int) -> Callable[[], None]:
        """Write all that is told, said and logged as lines of a log; the answer puts `logging` back."""
        log = Log(tell, form, level)
        self.say, self.teller, self.log = log.say, log, (form, level)
        return self.log_with(log)

    def log_with(self, log: Log) -> Callable[[], None]:
        """Let a log have what the program and its tasks log; the answer puts `logging` back."""
        self._log_to = LogLines(log)
        return self._log_to.take_over()

    def headers_here(self) -> Mapping[str, str]:
        """The headers that a run inherits which is started here: those of the task that starts it, and the trace."""
        attempt = current_or_none()
        return {**({} if attempt is None else attempt._outgoing), **self.tracing()}

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
        """Keep resources open for a block that runs tasks; the last block to end closes them."""
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
            self.work_on([each.id for each in chain(self.store, run._stored) if not each.state.is_end])

    def lend_a_hand_to_job(self, task: int) -> None:
        """The same for a job that has not ended."""
        if self.work_on_job is None or self._users:
            return
        standing = standing_of(self.store.reads, task, self.store.now())
        if standing.row is not None and not standing.state.is_end:
            self.work_on_job(standing.row.run, task)

    def complain(self, text: str, level: int = logging.WARNING) -> None:
        """Say what somebody should look at, louder than the rest where that can be told."""
        if self.say is say:
            say(text, level)
        elif isinstance(self.teller, Log):
            self.teller.say(text, level)
        else:
            self.say(text)

    @property
    def identity(self) -> object:
        """Its store, as something to compare with that of other engines in this process."""
        about = self.store.describe()
        return (about.name, about.location) if about.shared else id(self.store)


def _close(opened: list[Store], guests: list[Guest]) -> None:
    while guests:
        guests.pop().close()
    while opened:
        opened.pop().close()


def _stop(*parts: Pump | Housekeeping) -> None:
    for each in parts:
        each.stop()


def _once(act: Callable[[], None]) -> Listener:
    """Return a listener that acts at the first signal it hears."""
    left = [act]

    def hear(_: Signal) -> None:
        while left:
            left.pop()()

    return hear
