"""Whether the program that began a run is gone: told by its process id if that can be seen, else by the store."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from ramify.model.process import Process
from ramify.model.run import Owner
from ramify.shapes.owner import is_at_work, is_gone, this_program
from ramify.store import here

#: A number that no process of this machine has.
NOBODY = 2**22 + 1


def session(**given: Any) -> Process:
    place = {"host": here.host(), "boot": here.boot(), "pids": here.pids()}
    return Process(
        **({"id": 1, "pid": os.getpid(), "entered": 0, "beat_age": 5.0, "reaped": False, "last": 0} | place | given)
    )


def owner(**given: Any) -> Owner:
    return msgspec.structs.replace(this_program(stays=True), **given)


ELSEWHERE = [{"pids": "pid:[1]"}, {"boot": "another"}, {"host": "mill", "boot": "another", "pids": "pid:[1]"}]


def test_a_program_of_this_place_is_told_by_its_process_id() -> None:
    assert not is_gone(owner(), [])
    assert is_gone(owner(pid=NOBODY), [session(pid=NOBODY)])
    assert is_gone(owner(began="1"), [])
    assert is_gone(owner(host="renamed"), []) is False


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_program_elsewhere_is_told_by_its_session_whatever_its_host_is_called(place: dict[str, str]) -> None:
    other = owner(pid=NOBODY, **place)
    assert not is_gone(other, [session(pid=NOBODY, **place)])
    assert not is_gone(other, [session(pid=NOBODY + 1, parent=NOBODY, **place)])
    assert is_gone(other, [])
    assert is_gone(other, [session(pid=NOBODY, **place, reaped=True)])
    assert is_gone(other, [session(pid=NOBODY, **(place | {"beat_age": None}))])
    assert is_gone(other, [session(pid=NOBODY)])


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_session_elsewhere_is_at_work_although_its_number_means_nobody_here(place: dict[str, str]) -> None:
    assert is_at_work(session(pid=NOBODY, **place))
    assert is_at_work(session(**place)), "it has our number, and is somebody else"
    assert not is_at_work(session(pid=NOBODY, **(place | {"beat_age": None})))


def test_a_session_of_this_place_is_at_work_while_its_process_is_there() -> None:
    assert not is_at_work(session())
    assert is_at_work(session(pid=os.getppid()))
    assert not is_at_work(session(pid=NOBODY))
    assert not is_at_work(session(pid=os.getppid(), reaped=True))


@pytest.mark.parametrize("place", [{"pid": os.getppid()}, *ELSEWHERE])
def test_a_session_that_knows_no_kinds_is_not_at_work(place: dict[str, Any]) -> None:
    assert is_at_work(session(**place))
    assert is_at_work(session(**place, kinds=("load",)))
    assert not is_at_work(session(**place, kinds=()))


def test_where_the_system_does_not_tell_the_host_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "boot", lambda: "")
    monkeypatch.setattr(here, "pids", lambda: "")
    assert here.sees(here.host(), "", "")
    assert not here.sees("mill", "", "")
