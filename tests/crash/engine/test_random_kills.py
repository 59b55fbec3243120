"""`kill -9` at random moments of a program that calls `engine.run`: the same line goes on and loses nothing.

In one process with threads, and with worker processes, of which now a child, now the parent is killed; and as a service
whose children are replaced meanwhile for other reasons as well. Whatever was killed, everything is compared in the end
with the tree that was drawn for it and with what the witness heard.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.clients import LIMIT, Client, Clients, wait_until
from tests.crash.engine.scene import children_of, is_alive
from tests.crash.test_kill import Chase
from tests.crash.tree import MOST
from tests.crash.witness import Said

LATE = 0.150
RecordProperty = Callable[[str, object], None]


class EngineChase(Chase):
    """One store whose programs are killed until their run has ended."""

    def program(self, *options: str, work: str | None = None) -> Client:
        """Set a program to work."""
        client = self._clients.next()
        client.begin(work or self.work, self.folder, self.seed, *options)
        return client

    def has_finished(self) -> bool:
        """Whether some program got to the end of its `engine.run`."""
        return any(line.said is Said.FINISHED for line in self.lines())


def with_threads(chase: EngineChase) -> None:
    """One process at a time."""
    while chase.is_killed(chase.program(f"threads={chase.chance.choice((0, 1, 4))}"), LATE):
        if chase.kills % 3 == 1:
            assert chase.look() == []


def with_processes(chase: EngineChase) -> None:
    """A crew of two, of which now one child is killed, now the parent; its children then go by themselves."""
    while not chase.has_finished():
        program = chase.program("processes=2", "threads=2")
        while not chase.has_finished():
            if program.ends_within(chase.chance.uniform(0.1, 0.1 + LATE * (2 + chase.kills / 10))):
                break
            crew = children_of(program.pid)
            if chase.chance.random() < 0.3 or not crew:
                program.kill()
                chase.kills += 1
                wait_until(lambda crew=crew: not any(map(is_alive, crew)), "the children to go")  # type: ignore[misc]
                break
            with suppress(ProcessLookupError):
                os.kill(chase.chance.choice(crew), signal.SIGKILL)
                chase.kills += 1
        else:
            assert program.ends_within(LIMIT)


def as_a_service(chase: EngineChase) -> None:
    """`ramify worker` with two children, recycled, reloaded, added, removed; now a child is killed, now the parent."""
    while not chase.has_finished():
        service = chase.program(work="service")
        # Children start often here, which takes long on a busy machine.
        while not service.ends_within(chase.chance.uniform(0.1, 0.1 + LATE * (2 + 1.3**chase.kills))):
            crew = children_of(service.pid)
            if chase.chance.random() < 0.3 and crew:
                service.send(chase.chance.choice((signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)))
            elif chase.chance.random() < 0.3 or not crew:
                service.kill()
                chase.kills += 1
                wait_until(lambda crew=crew: not any(map(is_alive, crew)), "the children to go")  # type: ignore[misc]
                break
            else:
                with suppress(ProcessLookupError):
                    os.kill(chase.chance.choice(crew), signal.SIGKILL)
                    chase.kills += 1


Hunt = Callable[[EngineChase], None]


def hunt_until(kills: int, most: int, hunt: Hunt, folder: Path, clients: Clients, chance: random.Random) -> int:
    """Chase one store after the other until that many kills have happened."""
    done = number = 0
    while done < kills:
        chase = EngineChase(folder / f"store-{number}", clients, chance, most=most)
        hunt(chase)
        assert chase.verdict() == []
        done += chase.kills
        number += 1
    return done


def test_a_program_with_threads_survives_random_kills(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(26, 150, with_threads, tmp_path, clients, seed))


def test_a_program_with_worker_processes_survives_random_kills(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(14, MOST, with_processes, tmp_path, clients, seed))


def test_a_service_survives_random_kills_of_itself_and_its_children(
    tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(6, 80, as_a_service, tmp_path, clients, seed))


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_a_program_with_threads_survives_many_random_kills(
    part: int, tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(175, MOST, with_threads, tmp_path, clients, seed))


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(3))
def test_a_program_with_worker_processes_survives_many_random_kills(
    part: int, tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(100, MOST, with_processes, tmp_path, clients, seed))


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(3))
def test_a_service_survives_many_random_kills_of_itself_and_its_children(
    part: int, tmp_path: Path, clients: Clients, seed: random.Random, record_property: RecordProperty
) -> None:
    record_property("kills", hunt_until(100, MOST, as_a_service, tmp_path, clients, seed))
