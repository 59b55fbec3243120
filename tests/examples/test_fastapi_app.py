"""The web app of the examples under a real server: asked over HTTP, killed, and started again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from ramify.cli.main import main
from ramify.model.event import Status
from ramify.store.open import open_store
from tests.examples.conftest import LONG, Server, wait_until

Wanted = dict[str, str | int]
ANN: Wanted = {"customer": "ann", "days": 60}
BOB: Wanted = {"customer": "bob", "days": 30}
LONG_ONE: Wanted = {"customer": "cid", "days": 10_000}


class Site:
    """The app in a folder of its own, served by one process after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "ramify-fastapi-app.db"

    @contextmanager
    def served(self, ends_by: signal.Signals) -> Iterator[httpx.Client]:
        """Start a server on a free port; when the block is left, it gets the signal and ends by it."""
        server = Server("fastapi_app", self._folder)
        try:
            with httpx.Client(base_url=server.address, timeout=LONG, trust_env=False) as client:
                yield client
                server.end(ends_by)
        finally:
            server.close()

    def statuses(self) -> dict[int, list[Status]]:
        """What the log says of each report."""
        store = open_store(self.file)
        try:
            (run,) = store.reads.runs().rows
            tasks = [row.id for row in store.reads.tasks(run.id, kind="make_report").rows]
            return {task: [event.status for event in store.reads.events(task, task)] for task in tasks}
        finally:
            store.close()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def post(client: httpx.Client, wanted: Wanted, **query: Any) -> dict[str, Any]:
    answer = client.post("/reports", json=wanted, params=query)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def show(client: httpx.Client, id: int) -> dict[str, Any]:
    answer = client.get(f"/reports/{id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def listed(client: httpx.Client, **query: Any) -> list[int]:
    return [each["id"] for each in client.get("/reports", params=query).json()]


def cancel(client: httpx.Client, id: int) -> str:
    return str(client.delete(f"/reports/{id}").json()["cancel"])


def wait_for(client: httpx.Client, id: int, state: str) -> None:
    wait_until(lambda: show(client, id)["state"] == state)


def test_a_report_is_made_once_though_it_is_asked_for_often_and_the_server_is_killed_in_the_middle(site: Site) -> None:
    with site.served(signal.SIGKILL) as client:
        answer = post(client, ANN)
        id = answer["id"]
        assert answer["new"]
        wait_for(client, id, "running")
    assert Status.DONE not in site.statuses()[id], "it was over before it could be killed"

    with site.served(signal.SIGTERM) as client:
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: post(client, ANN), range(16)))
        assert answers == [{"id": id, "new": False}] * 16
        wait_for(client, id, "done")
        assert show(client, id) == {
            "id": id,
            "state": "done",
            "progress": None,
            "text": "ann bought 1770",
            "error": None,
        }
        assert post(client, ANN) == {"id": id, "new": False}
        assert site.statuses() == {id: [Status.DONE]}
        anew = post(client, ANN, again=True)
        assert anew["new"]
        assert anew["id"] != id


def test_a_server_that_is_told_to_stop_finishes_what_runs(site: Site) -> None:
    with site.served(signal.SIGTERM) as client:
        id = post(client, ANN)["id"]
        # Somebody may hold it who has not begun it yet, and would not begin it any more.
        wait_until(lambda: show(client, id)["progress"] or show(client, id)["state"] == "done")
    assert site.statuses() == {id: [Status.DONE]}


def test_reports_are_listed_and_cancelled_and_unknown_ones_are_not_found(site: Site) -> None:
    with site.served(signal.SIGTERM) as client:
        long = post(client, LONG_ONE)["id"]
        wait_for(client, long, "running")
        assert cancel(client, long) == "requested"
        wait_for(client, long, "cancelled")
        assert cancel(client, long) == "ended"

        typed = CliRunner().invoke(main, ["-s", str(site.file), "pause", "jobs/reports"])
        assert typed.exit_code == 0, typed.output
        bob = post(client, BOB)["id"]
        anew = post(client, LONG_ONE)
        assert anew["new"], "one that was cancelled leaves its key to others"
        assert listed(client) == [anew["id"], bob, long]
        assert listed(client, state="cancelled") == [long]
        assert listed(client, before=bob) == [long]
        assert listed(client, before=2**80) == listed(client)
        assert cancel(client, bob) == "certain"
        assert show(client, bob)["state"] == "cancelled"

        for odd in (0, -1, 12345, 2**80):
            assert client.get(f"/reports/{odd}").status_code == 404
            assert client.delete(f"/reports/{odd}").status_code == 404
        assert client.get("/reports", params={"state": "lost"}).status_code == 422

        for body in (r'{"customer": "b\udc80", "days": 1}', r'{"customer": "b\u0000", "days": 1}'):
            answer = client.post("/reports", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 422
        assert listed(client) == [anew["id"], bob, long]
