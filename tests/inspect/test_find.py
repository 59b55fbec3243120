"""Runs by what people call them."""

import pytest

from ramify.errors import UnknownRun
from ramify.inspect import find
from ramify.inspect.find import NAMED, find_run, newest_run, open_runs, title
from ramify.testing.conformance import House


def test_a_name_means_its_newest_generation_and_a_number_one_of_them(house: House) -> None:
    first = house.run(name="walk")
    second = house.run(name="walk", generation=2)
    reads = house.store.reads
    assert find_run(reads, "walk").id == second
    assert find_run(reads, "walk#1").id == first
    assert find_run(reads, "walk#2").id == second
    assert find_run(reads, str(first)).id == find_run(reads, f"#{first}").id == first
    assert [title(reads.run(run)) for run in (first, second)] == ["walk", "walk#2"]


def test_a_name_wins_over_an_id_that_looks_the_same(house: House) -> None:
    run = house.run(house.tasks())
    named = house.run(house.tasks(), name=str(run))
    assert find_run(house.store.reads, str(run)).id == named
    assert find_run(house.store.reads, f"#{run}").id == run


@pytest.mark.parametrize("wanted", ["nope", "walk#7", "99999", "", "#", "\x1b[2J", "a\0b", "\udcff", "9" * 40])
def test_what_is_not_there_is_answered_with_what_is(house: House, wanted: str) -> None:
    house.run(house.tasks(), name="walk")
    with pytest.raises(UnknownRun, match="There is 'walk'"):
        find_run(house.store.reads, wanted)


def test_of_many_runs_the_newest_are_named_and_no_others_read(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(NAMED + 2):
        house.run(name=f"walk {number}")
    monkeypatch.setattr(find, "every_run", None)
    with pytest.raises(UnknownRun, match=r"There are 'walk 2', .*'walk 11' \(and older ones\)"):
        find_run(house.store.reads, "nope")


def test_a_store_without_runs_says_so(house: House) -> None:
    with pytest.raises(UnknownRun, match="no runs yet"):
        find_run(house.store.reads, "walk")
    assert newest_run(house.store.reads) is None


def test_open_runs_are_those_that_have_not_ended(house: House) -> None:
    ended = house.run(house.tasks())
    house.finish(ended)
    paused, going = house.run(house.tasks()), house.run(house.tasks())
    house.store.pause(paused)
    assert [run.id for run in open_runs(house.store.reads)] == [paused, going]
