"""The service of the examples in two real processes, one of which is killed in the middle, and its live feed."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from ramify import Engine, JobState
from tests.examples.conftest import LONG, ROOT, Server, wait_until

ORDERS = [f"o-{number}" for number in range(16)]
#: Lines of an order: some that arrive while it is opened, and some that arrive later.
EARLY, LATE = ["tea", "milk", "salt"], ["rice", "soap"]
#: Orders with a line that fails for good, before the late ones.
ODD = ORDERS[::4]


class Service:
    """The processes of the service on one store, and their clients."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/shop.db"
        self.engine = Engine(self.url)
        self.servers: list[Server] = []
        self.killed: Server | None = None
        self._turns = count()
        #: A connection for each request: one that is kept may be closed as the next request is sent.
        self._client = httpx.Client(timeout=LONG, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    def start(self, app: str = "service") -> Server:
        """Start one more process."""
        server = Server(app, self.folder, RAMIFY_URL=self.url)
        self.servers.append(server)
        return server

    def ask(self, method: str, path: str, **query: str) -> httpx.Response:
        """Ask the processes by turns; a request that is not answered is sent again, to the next one."""
        answers: list[httpx.Response] = []

        def is_answered() -> bool:
            server = self.servers[next(self._turns) % len(self.servers)]
            try:
                answer = self._client.request(method, server.address + path, params=query)
            except httpx.TransportError:
                assert server is self.killed, server.log
            else:
                answers.append(answer)
            return bool(answers)

        wait_until(is_answered)
        assert answers[0].status_code < 500, answers[0].text
        return answers[0]

    def put(self, path: str, **query: str) -> None:
        """Send what is put twice, as a client that missed the answer: it is one job."""
        first, again = (self.ask("PUT", path, **query).json() for _ in range(2))
        assert first["job"] == again["job"]
        assert not again["new"]

    def open(self, order: str) -> None:
        """Open an order, and add to it at once."""
        self.put(f"/orders/{order}")
        for item in EARLY:
            self.put(f"/orders/{order}/lines/{item}", item=item)

    def extend(self, order: str) -> None:
        """Add to an order once it is open."""
        wait_until(lambda: self.ask("GET", f"/orders/{order}").status_code == 200)
        if order in ODD:
            assert self.ask("PUT", f"/orders/{order}/lines/moon", item="moon").status_code == 202
        for item in LATE:
            self.put(f"/orders/{order}/lines/{item}", item=item)

    def kill_one_that_opens_an_order(self) -> None:
        """Kill a process that has an order in hand, with no warning."""

        def victim() -> Server | None:
            running = {job.worker for job in self.engine.jobs(kind="open_order", state=JobState.RUNNING)}
            pids = {each.pid for each in self.engine._runtime.store.reads.processes() if f"{each.id:x}" in running}
            return next((server for server in self.servers if server.process.pid in pids), None)

        def is_killed() -> bool:
            server = victim()
            if server is None:
                return False
            self.killed = server
            server.end(signal.SIGKILL)
            return True

        wait_until(is_killed)

    def changes(self) -> list[tuple[str | None, str | None]]:
        """Return all that was published: orders and items, None for an order that was opened."""
        rows = self.engine._runtime.store.reads.publications("changes", limit=10_000)
        return [(row.key, json.loads(row.value)["item"]) for row in rows]

    def ledger(self) -> list[tuple[str, str]]:
        """Return the keys of tasks and the lines in the ledger."""
        ledger = self.folder / "ramify-service-ledger.txt"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return [(key, literal_eval(text)) for key, _, text in (line.partition(" ") for line in lines)]

    def sold(self) -> dict[str, int]:
        """Return what the schedule has counted."""
        return dict(self.ask("GET", "/sold").json())

    def close(self) -> None:
        """Leave no process behind."""
        for server in self.servers:
            server.close()
        self._client.close()
        self.engine.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.close()


def test_nothing_is_lost_and_nothing_done_twice_though_a_process_is_killed_in_the_middle(service: Service) -> None:
    for server in (service.start(), service.start()):
        assert server.address
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(service.open, ORDERS))
    # Two at a time: clients that poll slow down whoever looks for the moment of the kill.
    with ThreadPoolExecutor(2) as clients:
        extending = [clients.submit(service.extend, order) for order in ORDERS]
        wait_until(lambda: len(service.changes()) > len(EARLY))
        service.kill_one_that_opens_an_order()
        assert not all(each.done() for each in extending), "the clients were done before"
        service.start()
        for each in extending:
            each.result()

    items = EARLY + LATE
    all_lines = len(ORDERS) * (1 + len(items)) + len(ODD)
    wait_until(lambda: len(service.ledger()) >= all_lines)
    wait_until(lambda: service.sold() == dict.fromkeys(items, len(ORDERS)))
    for order in ORDERS:
        assert service.ask("GET", f"/orders/{order}").json() == {"items": items}
    for server in service.servers:
        if server is not service.killed:
            server.end(signal.SIGTERM)

    changes, ledger = service.changes(), service.ledger()
    assert len(changes) == len(ORDERS) * (1 + len(items))
    assert len(ledger) == len({key for key, _ in ledger}) == all_lines
    for order in ORDERS:
        assert [item for key, item in changes if key == order] == [None, *items]
        assert [text for _, text in ledger if text.startswith(f"{order}: ")] == [
            f"{order}: {item}" for item in ["opened", *items]
        ]
    assert Counter(text for _, text in ledger)["add_line failed: the moon is not for sale"] == len(ODD)
    assert {job.state for job in service.engine.jobs(kind="open_order")} == {JobState.DONE}
    states = Counter(job.state for job in service.engine.jobs(kind="add_line"))
    assert states == {JobState.DONE: len(ORDERS) * len(items), JobState.FAILED: len(ODD)}


def test_a_service_refuses_what_cannot_be_done(service: Service) -> None:
    service.start()
    assert service.ask("GET", "/orders/o-1").status_code == 404
    assert service.ask("PUT", "/orders/o-1/lines/1").status_code == 404
    for odd in ("x" * 300, "a%00b"):
        assert service.ask("PUT", f"/orders/{odd}").status_code == 422
        assert service.ask("PUT", f"/orders/{odd}/lines/1").status_code == 422
        assert service.ask("GET", f"/orders/{odd}").status_code == 422
    assert service.ask("GET", "/jobs/none").status_code == 422
    assert service.ask("GET", "/jobs/12345").json() == {"state": "not_found", "error": None}


def test_a_live_feed_goes_on_after_the_last_number_though_its_process_is_killed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.start()
    service.put("/orders/o-1")
    for item in EARLY:
        service.put(f"/orders/o-1/lines/{item}", item=item)

    seen: list[Any] = []
    for _ in range(2):
        feed = Server("service_feed", service.folder, RAMIFY_URL=service.url)
        try:
            with httpx.Client(base_url=feed.address, timeout=LONG, trust_env=False) as client:
                assert "EventSource" in client.get("/").text
                headers = {"last-event-id": str(len(seen))} if seen else {}
                with client.stream("GET", "/feed", headers=headers) as answer:
                    events = (json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:"))
                    seen += [next(events), next(events)]
                    feed.end(signal.SIGKILL)
        finally:
            feed.close()
    assert seen == [
        {"number": number, "order": "o-1", "item": item} for number, item in enumerate([None, *EARLY], start=1)
    ]

    app = live_app(service, monkeypatch)
    assert asyncio.run(over_a_socket(app, service)) == [*seen[3:], {"number": 5, "order": "o-1", "item": "rice"}]


def live_app(service: Service, monkeypatch: pytest.MonkeyPatch) -> ASGIApp:
    """Return the feed in this process: uvicorn needs a package for web sockets that the tests do not have."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("RAMIFY_URL", service.url)
    for name in ("service", "service_feed"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    app: ASGIApp = importlib.import_module("service_feed").app
    return app


async def over_a_socket(app: ASGIApp, service: Service) -> list[Any]:
    """Ask for the changes since number 3, see one come while the socket is open, and leave."""
    coming: asyncio.Queue[Any] = asyncio.Queue()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    scope: dict[str, Any] = {"type": "websocket", "path": "/live", "query_string": b"since=3", "headers": []}

    async def serve() -> None:
        await app(scope, coming.get, sent.put)

    serving = asyncio.create_task(serve())
    await coming.put({"type": "websocket.connect"})
    assert (await sent.get())["type"] == "websocket.accept"
    first = json.loads((await sent.get())["text"])
    await asyncio.to_thread(service.put, "/orders/o-1/lines/rice", item="rice")
    second = json.loads((await sent.get())["text"])
    await coming.put({"type": "websocket.disconnect", "code": 1001})
    await asyncio.wait_for(serving, LONG)
    return [first, second]


def test_the_service_can_be_read_in_one_sitting() -> None:
    for name, most in (("service", 150), ("service_feed", 75)):
        assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < most
