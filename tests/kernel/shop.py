"""A shop for kernel tests: plain functions become kinds of one store, and kernels work on them until their runs end.

Everything is real: the stores, the kernel, its threads and its event loop. Waiting is done on events and conditions.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ramify.engine.library import StoreLibrary
from ramify.errors import StoreUnavailable
from ramify.kernel.attempts.control import Return
from ramify.kernel.attempts.stream import Stream
from ramify.kernel.core.handler import Calling, Handler, Policy
from ramify.kernel.kernel import Kernel
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signal, Signals
from ramify.model.call import Call, Group
from ramify.model.codec import Signature
from ramify.model.event import Event, Status
from ramify.model.outcome import Failure
from ramify.model.policy import Backoff
from ramify.model.run import Order, RunState
from ramify.shapes.start import StartRequest, add, begin
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.open import open_store

#: What no test should ever need.
LONG = 15.0
AT_ONCE = Backoff(first=0.0)


class Made:
    """A function as a kind of task."""

    def __init__(self, fn: Callable[..., Any], kind: str, policy: Policy, stream: str | None, stream_of: Any) -> None:
        self.kind = kind
        signature = Signature.of(fn, {} if stream is None else {stream: stream_of}, last_word=Return)
        self.handler = Handler(
            kind, fn, signature, Calling.of(fn), policy, stream, {} if stream is None else {stream: stream_of}
        )
        self.group = Group(kind, signature)

    def of(self, *args: Any, **kwargs: Any) -> Call[Any]:
        return Call(self.group, self.group.signature.encode(args, kwargs))


class Shop:
    """One place with its handlers. `open` gives another client of the same place."""

    def __init__(self, open: Callable[[], Store]) -> None:
        self._open = open
        self.stores: list[Store] = []
        self.store = self.open()
        self.handlers: dict[str, Handler] = {}
        self.kernels: list[Kernel] = []

    def open(self) -> Store:
        store = self._open()
        self.stores.append(store)
        return store

    def task(self, fn: Callable[..., Any], *, kind: str | None = None, stream_of: Any = Any, **policy: Any) -> Made:
        policy.setdefault("backoff", AT_ONCE)
        defaults = {name: each.default for name, each in inspect.signature(fn).parameters.items()}
        stream = next((name for name, default in defaults.items() if isinstance(default, Stream)), None)
        made = Made(fn, kind or fn.__name__.strip("_"), Policy(**policy), stream, stream_of)
        self.handlers[made.kind] = made.handler
        return made

    def start(self, *calls: Call[Any], store: Store | None = None, **ask: Any) -> int:
        """A run with these roots; nobody works on it yet."""
        return begin(store or self.store, StartRequest(*plan_of(calls), **ask)).run.id

    def add(self, run: int, *calls: Call[Any], store: Store | None = None) -> tuple[int, ...]:
        given = store or self.store
        return tuple(each.task or 0 for each in add(given, run, calls, lambda many, above: given.reserve(many)))

    def kernel(
        self,
        *runs: int,
        store: Store | None = None,
        signals: Signals | None = None,
        machine: Machine = HERE,
        **given: Any,
    ) -> Kernel:
        """A kernel that beats and saves often; with `runs`, one that ends with them."""
        fast: dict[str, Any] = {"beat_every": 0.03, "flush_after": 0.01, "grace": LONG}
        if runs:
            fast |= {"runs": frozenset(runs), "until_ended": True}
        own = store or self.store
        library = StoreLibrary(own, self.handlers)
        kernel = Kernel(own, self.handlers, library, Settings(**(fast | given)), signals, machine=machine)
        self.kernels.append(kernel)
        return kernel

    def run(self, *calls: Call[Any], order: Order = Order.ROUNDS, params: Any = None, **settings: Any) -> int:
        """Start a run and work until it has ended."""
        run = self.start(*calls, order=order, params=params)
        self.finish(run, **settings)
        return run

    def finish(self, *runs: int, **settings: Any) -> None:
        kernel = self.kernel(*runs, **settings)
        kernel.start()
        assert kernel.join(LONG), "the run does not end"

    @contextmanager
    def working(self, *runs: int, **settings: Any) -> Iterator[Kernel]:
        """A kernel at work beside the test."""
        kernel = self.kernel(*runs, **settings)
        kernel.start()
        try:
            yield kernel
        finally:
            kernel.stop()
        assert kernel.join(LONG), "the kernel does not stop"

    # what came of it

    def state(self, run: int) -> RunState:
        return self.store.reads.run(run).state

    def results(self, run: int, kind: str | None = None) -> list[Any]:
        """Results of the tasks that ended well, by id."""
        rows = self.store.reads.results(run, kind=kind, limit=10_000).rows
        tasks = {row.task: self.store.reads.task(row.task) for row in rows}
        return [self.handlers[tasks[row.task].kind].signature.decode_result(row.value) for row in rows]  # type: ignore[union-attr]

    def tasks(self, run: int, kind: str | None = None) -> list[int]:
        return [row.id for row in self.store.reads.tasks(run, kind=kind, limit=10_000).rows]

    def events(self, task: int) -> Sequence[Event]:
        return self.store.reads.events(task, task)

    def statuses(self, task: int) -> list[Status]:
        return [event.status for event in self.events(task)]

    def failure(self, task: int) -> Failure:
        return Failure.decode(self.events(task)[-1].value)

    def count(self, run: int, status: Status) -> int:
        return sum(counts.get(status, 0) for counts in self.store.reads.counts(run).values())

    def close(self) -> None:
        for kernel in self.kernels:
            kernel.abandon()
            with suppress(BaseException):
                kernel.join(LONG)
        for store in self.stores:
            store.close()


def opener(kind: str, folder: Path) -> Callable[[], Store]:
    """Clients of one empty place."""
    if kind == "sqlite":
        return lambda: open_store(folder / "shop.db", durability="process")
    from ramify.store.memory import MemoryStore, MemoryTables

    place = MemoryTables()
    return lambda: MemoryStore(place)


class Gate:
    """Where handlers wait until a test opens it; it knows how many came."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._open = False
        self.inside = 0
        self.most = 0
        self.came = 0

    def enter(self) -> None:
        with self._condition:
            self.came += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
            self._condition.notify_all()
            opened = self._condition.wait_for(lambda: self._open, LONG)
            self.inside -= 1
        assert opened, "nobody opened the gate"

    def arrive(self) -> None:
        """Come without waiting."""
        with self._condition:
            self.came += 1
            self._condition.notify_all()

    def open(self) -> None:
        with self._condition:
            self._open = True
            self._condition.notify_all()

    def wait_for(self, many: int) -> None:
        """Until so many have come."""
        with self._condition:
            assert self._condition.wait_for(lambda: self.came >= many, LONG), f"{self.came} of {many} came"


class Ear:
    """A listener that keeps what it heard and can be waited on."""

    def __init__(self) -> None:
        self.heard: list[Signal] = []
        self._condition = threading.Condition()

    def __call__(self, signal: Signal) -> None:
        with self._condition:
            self.heard.append(signal)
            self._condition.notify_all()

    def of(self, kind: type) -> list[Any]:
        return [signal for signal in self.heard if type(signal) is kind]

    def wait_for(self, kind: type, many: int = 1) -> Any:
        with self._condition:
            assert self._condition.wait_for(lambda: len(self.of(kind)) >= many, LONG), f"no {kind.__name__}"
        return self.of(kind)[many - 1]


class Away:
    """A store that can be away: while it is, every verb of work raises StoreUnavailable, some after they were done."""

    VERBS = frozenset(
        {"enter", "leave", "beat", "reap", "reserve", "claim", "stage", "commit", "release", "advance", "note", "wait"}
    )

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gone = threading.Event()
        self._tried = threading.Condition()
        self.tries = 0
        self.calls: list[str] = []
        self.lose_answers = False

    def go(self) -> None:
        self._gone.set()

    def come_back(self) -> None:
        self._gone.clear()

    def wait_for_tries(self, many: int) -> None:
        with self._tried:
            assert self._tried.wait_for(lambda: self.tries >= many, LONG)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in self.VERBS:
            return verb

        def sent(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if not self._gone.is_set():
                return verb(*args, **kwargs)
            if self.lose_answers:
                verb(*args, **kwargs)
            with self._tried:
                self.tries += 1
                self._tried.notify_all()
            raise StoreUnavailable(f"{name}: away")

        return sent


def rewrite(module: Path, text: str) -> None:
    """Change a module that was imported before: its bytecode is told from the new text by size and second only."""
    second = module.stat().st_mtime
    module.write_text(text)
    os.utime(module, (second + 2, second + 2))


def wait_until(true: Callable[[], object], seconds: float = LONG) -> None:
    """Until something holds that nobody announces."""
    end, never = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < end, "it never came true"
        never.wait(0.005)
