"""The pump: turns publications into tasks for the readers of `@engine.on`, in a thread beside the workers.

Promises: each publication becomes one task of each reader, whoever pumps and whenever they die: the tasks are added in
the same verb that moves the reader's cursor. What goes wrong with one reader touches no other.

Every process that declares a reader pumps for it. Of several, the one that moved a cursor last goes on at once; others
leave a publication to it for a moment, and take over when it stays away. None waits for another.

CRASH: before its verb nothing was passed, after it the tasks are there -> whoever pumps next goes on from the cursor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ramify.coordination.handling import Handling, topics_of
from ramify.coordination.host import TopicHost
from ramify.coordination.ordering import LatestTasks
from ramify.coordination.places import cursor
from ramify.coordination.publishing import arguments
from ramify.errors import RamifyError, StoreUnavailable
from ramify.kernel.machine import HERE, Machine
from ramify.kernel.outgoing.outbox import additions_of
from ramify.kernel.tuning import LONGEST_REST, PUMP_PATIENCE, PUMP_PAUSE
from ramify.model.addition import Addition
from ramify.model.call import Call, Group
from ramify.model.key import key_bytes
from ramify.model.own_topics import FAILURES_TOPIC
from ramify.model.policy import SECOND
from ramify.model.reader import READERS, read_reader
from ramify.model.topic import StoredPublication
from ramify.model.value import Swap

#: The most publications that become tasks in one verb, and the bytes above which it is fewer.
FEWEST, MOST, MOST_ORDERED, HEAVY = 64, 4_096, 256, 4_194_304
#: How long a stop waits for a verb that has begun.
LAST = 0.5


class Pump:
    """The pump of one process, for its readers."""

    def __init__(
        self,
        host: TopicHost,
        readers: Sequence[Handling],
        complain: Callable[[str], None],
        machine: Machine = HERE,
    ) -> None:
        self._host = host
        self._complain, self._machine = complain, machine
        self._lines = [_Line(host, each) for each in readers]
        #: What was complained about, by reader, so that it is said once.
        self._said: dict[str, str] = {}
        self._stepping = threading.Lock()
        self._has_moved = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Pump in a thread until `stop`."""
        if self._lines and self._thread is None and not self._over.is_set():
            self._thread = self._machine.thread(self._run, "ramify-pump")
            self._thread.start()

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        is_new = not self._over.is_set()
        self._over.set()
        if self._thread is None or not is_new:
            return
        self._host.store.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(LAST)

    def is_through(self) -> bool:
        """Take what is there; False if anything was taken since this was asked last, by the thread too."""
        self.step()
        has_moved, self._has_moved = self._has_moved, False
        return not has_moved

    def step(self) -> bool:
        """Let each reader take its next publications; whether one did."""
        with self._stepping:
            moved = self._step()
            self._has_moved = moved or self._has_moved
            return moved

    def _step(self) -> bool:
        moved = False
        for line in self._lines:
            name = line.reader.name
            try:
                moved = line.step() or moved
                self._said.pop(name, None)
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, the other readers go on
                text = f"reader {name!r}: {error}"
                if self._said.get(name) != text:
                    self._said[name] = text
                    self._complain(text)
        return moved

    def _run(self) -> None:
        store = self._host.store
        seen = 0
        while not self._over.is_set():
            try:
                seen = seen or store.wait(0, 0)
                if self.step():
                    continue
                # A store may change without pause, and none of that concern a reader.
                self._over.wait(PUMP_PAUSE)
                rest = min((line.looks_after for line in self._lines), default=LONGEST_REST)
                seen = store.wait(rest, seen)
            except RamifyError:
                # Away, or closed by its engine, which has stopped this then.
                self._over.wait(LONGEST_REST)


class _Line:
    """One reader, as one pump moves it."""

    def __init__(self, host: TopicHost, reader: Handling) -> None:
        self.reader = reader
        self._host = host
        self._latest = LatestTasks(host, reader)
        self._most = FEWEST
        #: The topics in which another pump was first the last time.
        self._follows: set[str] = set()
        #: Seconds after which it looks again though nothing was heard: another one may have died.
        self.looks_after = LONGEST_REST

    def step(self) -> bool:
        """Take what is next in each topic; whether there was anything."""
        store, name = self._host.store, self.reader.name
        self.looks_after = LONGEST_REST
        declared = store.reads.value(READERS, name)
        if declared is None or read_reader(declared.value).source != self.reader.source:
            # A person removed it: it is not for a program that runs to bring it back.
            return False
        look = Swap(READERS, name, declared.version, 0)
        moved = [self._take(topic, look) for topic in topics_of(store, self.reader.source)]
        return True in moved

    def _take(self, topic: str, look: Swap) -> bool:
        store = self._host.store
        place = cursor(store, self.reader.name, topic)
        page = store.reads.publications(topic, after=place.number, limit=self._most)
        if not page or self._is_left_to_another(topic, page[0]):
            return False
        additions, swaps = self._additions(self._wanted(topic, page))
        swaps += [look, place.moved(page[-1].number, self._host.reserve_ids(1))]
        # INVARIANT: A reader passes a publication exactly if its task is there.
        has_won = self._host.guest.send(lambda stamp: store.swap(stamp, swaps, additions))
        if has_won:
            self._follows.discard(topic)
            self._adapt(page)
        else:
            self._follows.add(topic)
            self._latest.forget()
            self.looks_after = PUMP_PATIENCE
        return has_won

    def _wanted(self, topic: str, page: Sequence[StoredPublication]) -> Sequence[StoredPublication]:
        """Return those of a page that become tasks: not failures of tasks that handle failures, or they never end."""
        if topic != FAILURES_TOPIC:
            return page
        readers = map(read_reader, (each.value for each in self._host.store.reads.values(space=READERS)))
        kinds = {each.kind for each in readers if each.source == FAILURES_TOPIC}
        return [each for each in page if each.key not in kinds]

    def _is_left_to_another(self, topic: str, first: StoredPublication) -> bool:
        """Return whether another pump was first before, and may still be about to take these."""
        if topic not in self._follows:
            return False
        waits = (self._host.store.now() - first.at) / SECOND
        if waits < PUMP_PATIENCE:
            self.looks_after = min(self.looks_after, max(PUMP_PAUSE, PUMP_PATIENCE - waits))
            return True
        return False

    def _additions(self, page: Sequence[StoredPublication]) -> tuple[list[Addition], list[Swap]]:
        """Return the tasks of a page, and what is swapped with them besides the cursor."""
        if self.reader.ordered and page:
            return self._latest.additions(page)
        calls = [self._call(each) for each in page]
        return additions_of(calls, self._host.reserve_ids, self._host.store.now()), []

    def _call(self, each: StoredPublication) -> Call[object]:
        group: Group = self.reader.group.varied or self.reader.group
        label = None if each.key is None else key_bytes(each.key)
        return Call(group, arguments(each, whole=self.reader.whole), label)

    def _adapt(self, page: Sequence[StoredPublication]) -> None:
        """Take more at a time where there is more, and fewer of heavy ones."""
        if sum(len(each.value) for each in page) > HEAVY:
            self._most = max(1, self._most // 4)
        elif len(page) == self._most:
            self._most = min(MOST_ORDERED if self.reader.ordered else MOST, self._most * 2)
