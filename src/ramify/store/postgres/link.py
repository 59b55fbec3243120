"""The link to a server: its connections, and transactions on them.

One connection writes, one reads; each serves one thread at a time. What a transaction writes is kept back until it asks
again or commits, so that it travels along: a verb is two trips, the questions and the rest. A transaction that met
others in a bad way (a deadlock, a row that somebody else added) changed nothing and is done once more.

A connection that was lost is opened again at the next use. A link does not survive a fork: in the child it refuses
everything, and says nothing to the server, which listens to the parent.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from ramify.errors import ConfigError, StoreRefused, StoreUnavailable
from ramify.store import forks
from ramify.store.postgres import schema
from ramify.store.postgres.errors import IS_LOCKED, REDO, explain
from ramify.store.postgres.pipe import Asked, Lost, Pipe, Refused, Rows
from ramify.store.url import shown

T = TypeVar("T")

#: How often a transaction is done before it is given up for now.
MOST_TRIES = 12
#: A client that is frozen inside of a transaction holds others up for this long, and for as long on the way.
IDLE_SECONDS, VERB_SECONDS = 5, 60
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OURS = ("schema", "notify", "prepare")


class Occupied(StoreUnavailable):
    """Somebody else has what was not waited for."""


class Transaction:
    """A transaction on a connection. Statements name tables by `@`, which stands for the schema."""

    def __init__(self, pipe: Pipe, at: Callable[[str], str], opening: Sequence[Asked]) -> None:
        self._pipe, self._at = pipe, at
        self._kept_back = list(opening)
        self._opening = tuple(opening)
        self.is_open = False
        #: The first place in the log of this transaction, once it is known; what it has of them.
        self.place, self.places = 0, 0
        #: Whose counters it moves when no process does: connections spread over the slots.
        self.client = pipe.pid

    def later(self, text: str, *values: Any) -> None:
        """Have a statement carried out, with whatever is asked next."""
        self._kept_back.append((self._at(text), values))

    def ask(self, text: str, *values: Any) -> Rows:
        """The rows that a statement finds."""
        return self.trip([(text, values)])[0]

    def trip(self, asked: Sequence[Asked]) -> list[Rows]:
        """The rows that each of some statements finds."""
        before, self._kept_back = self._kept_back, []
        self.is_open = True
        found = self._pipe.trip([*before, *((self._at(text), values) for text, values in asked)])
        return found[len(before) :]

    def next_place(self) -> int:
        """A place in the log that nobody else has."""
        if not self.place:
            ((self.place,),) = self.ask(schema.TRANSACTION)
        self.places += 1
        if self.places == schema.PLACES:
            raise StoreUnavailable("one transaction has too many places in the log; ask for less at once")
        return self.place + self.places

    def commit(self, more: Sequence[Asked]) -> list[Rows]:
        """Commit, and carry more out after that in the same trip."""
        if not self.is_open and len(self._kept_back) == len(self._opening):
            return self._pipe.trip([(self._at(text), values) for text, values in more]) if more else []
        self.later("COMMIT")
        return self.trip(more)

    def roll_back(self) -> None:
        """Leave nothing of it; asked again, it begins anew."""
        self._kept_back = list(self._opening)
        if self.is_open:
            self._pipe.send([("ROLLBACK", ())])
        self.is_open, self.place, self.places = False, 0, 0


class ServerLink:
    """The connections of one store to its server."""

    def __init__(self, url: str, *, durability: str, patience: float, block: int, create: bool, reading: bool) -> None:
        self.address, ours = _split(url)
        self.schema = ours.get("schema", "ramify")
        if not self.schema.isidentifier() or len(self.schema.encode()) > 60:
            raise ConfigError(f"schema={self.schema!r}: expected a name of letters, digits and _. Write ?schema=ramify")
        self.notifies, self._prepares = ours.get("notify") != "off", ours.get("prepare") != "off"
        self.place = shown(url)
        self._patience = patience
        self._texts: dict[str, str] = {}
        self._closed = self._orphaned = False
        self._locks = {"write": threading.Lock(), "read": threading.Lock()}
        self._pipes: dict[str, Pipe] = {}
        settings = {
            "synchronous_commit": "on" if durability == "power" else "off",
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            "enable_seqscan": "off",
        }
        set_all = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        self._begin: tuple[Asked, ...] = (("BEGIN", ()), (f"SELECT {set_all}", ()))
        forks.register(self)
        with self._using("read") as pipe:
            if pipe.version >= 170000:
                limit = f"SELECT set_config('transaction_timeout', '{VERB_SECONDS}s', true)"
                self._begin += ((limit, ()),)
            self.id = schema.found(pipe, self.schema, block=block, create=create and not reading)

    def at(self, text: str) -> str:
        """A statement with the name of the schema in it."""
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = text.replace("@", f'"{self.schema}".')
        return found

    def write(
        self, verb: Callable[[Transaction], T], after: Callable[[], Sequence[Asked]] = tuple
    ) -> tuple[T, list[Rows]]:
        """Carry out a verb in a transaction, and what comes `after` its commit, in one trip with that."""
        with self._using("write") as pipe:
            for tries in range(MOST_TRIES):
                db = Transaction(pipe, self.at, self._begin)
                try:
                    found = verb(db)
                    return found, db.commit([(self.at(text), values) for text, values in after()])
                except Refused as error:
                    db.roll_back()
                    if error.code not in REDO or tries == MOST_TRIES - 1:
                        raise
                    time.sleep(random.random() * 0.001 * 2**tries if tries > 1 else 0)
                except Lost:
                    raise
                except BaseException:  # also what the verb raised: our transaction must not outlive it
                    db.roll_back()
                    raise
        raise AssertionError

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """One snapshot, which sees nothing of later commits."""
        with self._using("read") as pipe:
            db = Transaction(pipe, self.at, ((_READ, ()), ("SET LOCAL enable_seqscan = off", ())))
            try:
                yield db
            finally:
                db.roll_back()

    def alone(self, *asked: Asked) -> list[Rows]:
        """Statements in a transaction of their own, on the connection that reads: it waits behind no verb."""
        with self._using("read") as pipe:
            return pipe.trip([(self.at(text), values) for text, values in asked])

    def another(self) -> Pipe:
        """A connection of the caller's own."""
        self._check_usable()
        return self._connect()

    def close(self) -> None:
        """Close the connections, once threads that use them are done."""
        self._closed = True
        for purpose, lock in self._locks.items():
            if lock.acquire(timeout=self._patience):
                try:
                    self._drop(purpose)
                finally:
                    lock.release()

    def orphan(self) -> None:
        """In a forked child: refuse everything from now on."""
        self._orphaned = True

    @contextmanager
    def _using(self, purpose: str) -> Iterator[Pipe]:
        self._check_usable()
        lock = self._locks[purpose]
        if not lock.acquire(timeout=self._patience):
            raise StoreUnavailable(
                f"{self.place}: another thread of this process has kept its connection for {self._patience:.0f} s; "
                "nothing was changed, try again"
            )
        try:
            self._check_usable()
            pipe = self._pipes.get(purpose)
            if pipe is None:
                pipe = self._pipes[purpose] = self._connect()
            try:
                yield pipe
            finally:
                if pipe.is_amiss:
                    self._drop(purpose)
        except Lost as error:
            self._drop(purpose)
            raise StoreUnavailable(f"{self.place}: {error}; try again") from error
        except Refused as error:
            if error.code == IS_LOCKED:
                raise Occupied(f"{self.place}: {error}; try again") from error
            raise explain(error, self.place) from error
        finally:
            lock.release()

    def _connect(self) -> Pipe:
        return Pipe(self.address, patience=self._patience, prepares=self._prepares)

    def _drop(self, purpose: str) -> None:
        pipe = self._pipes.pop(purpose, None)
        if pipe is not None and not self._orphaned:
            pipe.close()

    def _check_usable(self) -> None:
        if self._orphaned:
            raise StoreRefused(
                f"{self.place} was opened before this process was forked, and its connections do not survive a fork. "
                "Open the store again in the child"
            )
        if self._closed:
            raise StoreRefused(f"{self.place}: this store was closed. Open it again")


def _split(url: str) -> tuple[str, dict[str, str]]:
    """The address for libpq, and what of the query is ours."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in _OURS}
    theirs = urlencode([(name, value) for name, value in given if name not in _OURS])
    return parts._replace(query=theirs).geturl(), ours
