"""A hall with tasks of every shape under limits, and a meter that counts who is inside of it at a time."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from ramify import Defer, Engine, Tasks, steps
from ramify.kernel.signals import Took

#: How long a guest stays: long enough for others to come in meanwhile.
STAY = 0.004


class Meter:
    """How many are inside at a time, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Begin to count anew."""
        self.inside: Counter[str] = Counter()
        self.most: dict[str, int] = defaultdict(int)
        self.entered: list[str] = []

    def stay(self, name: str) -> None:
        """Be inside for a while."""
        with self._lock:
            self.entered.append(name)
            self.inside[name] += 1
            self.most[name] = max(self.most[name], self.inside[name])
        threading.Event().wait(STAY)
        with self._lock:
            self.inside[name] -= 1


meter = Meter()
#: What a guest does when it comes in, by its name.
acts: dict[str, Callable[[], object]] = {}


def guest(name: str) -> str:
    """Come into the hall."""
    meter.stay("hall")
    _act(name)
    return name


def visitor(at: str, name: str) -> str:
    """Come into the hall, and to somebody."""
    meter.stay("hall")
    return name


def caller(at: str, name: str) -> str:
    """Come to somebody."""
    meter.stay(at)
    _act(name)
    return name


def runner(name: str) -> str:
    """Start."""
    meter.entered.append(name)
    _act(name)
    return name


def post(name: str) -> str:
    """Send a letter."""
    meter.stay("mail")
    return name


def free(name: str) -> str:
    """Keep to no limit."""
    meter.entered.append(name)
    return name


def gather(*names: str) -> int:
    """Count those that have left."""
    return len(names)


def _act(name: str) -> None:
    if name in acts:
        acts.pop(name)()


class Hall:
    """A program with the limits `hall`, `host` per lane and `pace` of starts, or one that knows only some tasks."""

    def __init__(self, most: int = 2, rate: Any = "10/s") -> None:
        self.tasks = tasks = Tasks()
        self.engine = Engine("memory:", include=[tasks])
        hall = tasks.limit("hall", max_running=most)
        host = tasks.limit("host", max_running=1, per="lane")
        self.guest = tasks.task(limit=hall)(guest)
        self.visitor = tasks.task(limit=[hall, host], lane="at")(visitor)
        self.caller = tasks.task(limit=host, lane="at")(caller)
        self.runner = tasks.task(limit=tasks.limit("pace", max_rate=rate))(runner)
        self.post = tasks.task(queue="mail")(post)
        self.free = tasks.task(free)
        gathering = tasks.task(gather)
        self.dag = tasks.dag("feast")
        nodes = [self.dag.add(self.guest.of(str(number)), id=f"g{number}") for number in range(20)]
        self.dag.add(gathering.of(*[node.out for node in nodes]))
        self.party = tasks.pipeline("party", steps(self.guest).chain(self.guest).chain(self.guest))

    @property
    def store(self) -> Any:
        """The store it is on."""
        return self.engine._runtime.store

    def took(self) -> list[int]:
        """How many tasks each claim brings from now on; those that bring none are left out."""
        found: list[int] = []

        def hear(signal: object) -> None:
            if isinstance(signal, Took) and signal.tasks:
                found.append(signal.tasks)

        self.engine.listen(hear)
        return found


def shut(name: str, seconds: float, closes: Any) -> None:
    """Let the next task of that name close its limit."""

    def act() -> None:
        raise Defer(seconds, closes=closes)

    acts[name] = act
