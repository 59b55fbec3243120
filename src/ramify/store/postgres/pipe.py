"""One connection to a server, and trips on it: statements that are sent together and answered together.

libpq is used directly, by way of the driver's wrapper: a trip of thirty statements costs a third of what cursors take.
Statements are prepared in the trip that uses them first. Nothing is decided here, and nothing is sent twice: whoever
sent a trip whose answer is lost hears of it (`Lost`) and asks what became of it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from psycopg import Error, pq
from psycopg.adapt import Transformer

from ramify.store.postgres.wire import Statement, statement

#: What is asked: a statement and its values.
Asked = tuple[str, tuple[Any, ...]]
Rows = Sequence[tuple[Any, ...]]
_BAD = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)


class Lost(Exception):
    """The connection is gone, or the server has not answered for too long: nobody knows what was carried out."""


class Refused(Exception):
    """The server refused a statement, and with it the trip; `code` is its reason as a number."""

    def __init__(self, code: str, text: str, name: str | None = None) -> None:
        super().__init__(text)
        self.code, self.name = code, name


class Pipe:
    """A connection that always pipelines. One thread at a time."""

    def __init__(self, address: str, *, patience: float, prepares: bool = True) -> None:
        self._patience, self._prepares = patience, prepares
        self._prepared: set[bytes] = set()
        self._rows = Transformer()
        self._behind: list[tuple[Sequence[Statement], Sequence[bool]]] = []
        self.trips = 0
        #: A trip is on its way, or was left there: then nobody knows what will be answered next.
        self.is_amiss = False
        self.made_in = os.getpid()
        self._pg = self._connect(address)
        self.version = self._pg.server_version
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()

    def _connect(self, address: str) -> pq.abc.PGconn:
        pg = pq.PGconn.connect_start(address.encode())
        end = time.monotonic() + self._patience
        while True:
            if pg.status == pq.ConnStatus.BAD:
                raise Lost(_words(pg))
            match pg.connect_poll():
                case pq.PollingStatus.OK:
                    return pg
                case pq.PollingStatus.READING:
                    self._ready(pg, select.POLLIN, end)
                case pq.PollingStatus.WRITING:
                    self._ready(pg, select.POLLOUT, end)
                case _:
                    raise Lost(_words(pg))

    @property
    def socket(self) -> int:
        """The descriptor to listen to."""
        return self._pg.socket

    @property
    def pid(self) -> int:
        """The number of the server's process."""
        return self._pg.backend_pid

    def close(self) -> None:
        """Close it. In a forked child nothing is said to the server, which listens to the parent."""
        if self.made_in == os.getpid():
            self._pg.finish()

    def trip(self, asked: Sequence[Asked], *, once: bool = False) -> list[Rows]:
        """Carry statements out together; the rows of each. If one of them fails, none after it is carried out.

        Said `once`, they are not kept for the next time.
        """
        if self._behind:
            self._catch_up()
        self.trips += 1
        self.is_amiss = True
        try:
            found = self._receive(self._send(asked, self._prepares and not once))
        except Refused:
            self.is_amiss = False
            raise
        self.is_amiss = False
        return found

    def send(self, asked: Sequence[Asked]) -> None:
        """Have statements carried out and wait for nothing; whatever becomes of them, nobody hears of it."""
        if self._behind:
            self._catch_up()
        self._behind.append(self._send(asked, self._prepares))

    def notified(self) -> bool:
        """Take what arrived; whether somebody notified."""
        self._guard(self._pg.consume_input)
        told = False
        while self._pg.notifies() is not None:
            told = True
        return told

    # sending

    def _send(self, asked: Sequence[Asked], prepares: bool) -> tuple[Sequence[Statement], Sequence[bool]]:
        pg = self._pg
        found = [statement(text) for text, _ in asked]
        new: list[bool] = []
        try:
            for one, (_, values) in zip(found, asked, strict=True):
                packed = one.values(values)
                formats = [1] * len(values) or None
                if not prepares:
                    new.append(False)
                    pg.send_query_params(one.text, packed, one.types, formats, 1)
                    continue
                new.append(one.name not in self._prepared)
                if new[-1]:
                    self._prepared.add(one.name)
                    pg.send_prepare(one.name, one.text, one.types)
                pg.send_query_prepared(one.name, packed, formats, 1)
            pg.pipeline_sync()
        except Error as error:
            self._lose(str(error))
        self._flush()
        return found, new

    def _flush(self) -> None:
        pg, end = self._pg, time.monotonic() + self._patience
        while self._guard(pg.flush):
            if self._ready(pg, select.POLLIN | select.POLLOUT, end) & select.POLLIN:
                self._guard(pg.consume_input)

    # receiving

    def _catch_up(self) -> None:
        """Take the answers that nobody waited for."""
        behind, self._behind = self._behind, []
        for sent in behind:
            with suppress(Refused):
                self._receive(sent)

    def _receive(self, sent: tuple[Sequence[Statement], Sequence[bool]]) -> list[Rows]:
        found: list[Rows] = []
        refused: Refused | None = None
        for one, is_new in zip(*sent, strict=True):
            for of_it in ("prepare", "execute") if is_new else ("execute",):
                result = self._next()
                if result.status in _BAD:
                    if of_it == "prepare":
                        self._prepared.discard(one.name)
                    if refused is None and result.status == pq.ExecStatus.FATAL_ERROR:
                        refused = _refused(result)
                elif of_it == "execute":
                    found.append(self._read(result))
                self._expect_end()
        if self._next().status != pq.ExecStatus.PIPELINE_SYNC:
            self._lose("an answer came that nobody asked for")
        if refused is not None:
            raise refused
        return found

    def _read(self, result: pq.abc.PGresult) -> Rows:
        if result.status != pq.ExecStatus.TUPLES_OK:
            return ()
        self._rows.set_pgresult(result)
        return self._rows.load_rows(0, result.ntuples, tuple)

    def _next(self) -> pq.abc.PGresult:
        result = self._result()
        if result is None:
            self._lose("the server closed the connection")
        return result

    def _expect_end(self) -> None:
        if self._result() is not None:
            self._lose("an answer came that nobody asked for")

    def _result(self) -> pq.abc.PGresult | None:
        pg = self._pg
        if pg.is_busy():
            end = time.monotonic() + self._patience
            while pg.is_busy():
                self._ready(pg, select.POLLIN, end)
                self._guard(pg.consume_input)
        return pg.get_result()

    # trouble

    def _ready(self, pg: pq.abc.PGconn, for_what: int, end: float) -> int:
        poll = select.poll()
        poll.register(pg.socket, for_what)
        found = poll.poll(max(0.0, end - time.monotonic()) * 1000)
        if not found:
            raise Lost(f"the server has not answered for {self._patience:.0f} s")
        return found[0][1]

    def _guard(self, do: Any) -> Any:
        try:
            return do()
        except Error as error:
            self._lose(str(error))

    def _lose(self, why: str) -> NoReturn:
        raise Lost(_words(self._pg) or why)


def _words(pg: pq.abc.PGconn) -> str:
    return pg.get_error_message().strip()


def _refused(result: pq.abc.PGresult) -> Refused:
    def field(which: pq.DiagnosticField) -> str:
        return (result.error_field(which) or b"").decode("utf-8", "replace")

    text = field(pq.DiagnosticField.MESSAGE_PRIMARY)
    detail = field(pq.DiagnosticField.MESSAGE_DETAIL)
    name = field(pq.DiagnosticField.CONSTRAINT_NAME) or None
    return Refused(field(pq.DiagnosticField.SQLSTATE), f"{text} ({detail})" if detail else text, name)
