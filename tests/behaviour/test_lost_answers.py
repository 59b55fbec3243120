"""Jobs on a store whose answers get lost: each is there once, whether it was the verb that got lost or its answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any, cast

import pytest

from ramify import JobState
from ramify.errors import StoreUnavailable
from ramify.kernel.settings import Settings
from ramify.shapes import start
from ramify.store.contract import Store
from ramify.store.open import open_store
from ramify.testing import oracle
from tests.behaviour.conftest import STORES
from tests.behaviour.office import bundle, engine, letter, post, trace
from tests.shapes.losing import Losing, Way

OUTSIDE = ("reserve", "append")
WORKING = ("claim", "commit", "advance", "cancel", "reopen")
Lose = Callable[[dict[str, Iterator[Way]]], Losing]


@pytest.fixture(params=STORES)
def lose(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lose]:
    """Put the office on a store where these verbs get lost; nobody waits long before it sends one again."""
    monkeypatch.setattr(start, "_PAUSES", (0.0,) * 12)
    trace.clear()
    inner = open_store(STORES[request.param](tmp_path), durability="process")

    def losing(ways: dict[str, Iterator[Way]]) -> Losing:
        made = Losing(inner, ways)
        engine._runtime.use(cast(Store, made))
        return made

    yield losing
    assert oracle.check(inner) == []
    engine.close()


def finish() -> None:
    """Run what there is to run."""
    with engine._runtime.using_resources():
        engine._runtime.kernel(Settings(threads=0, until_idle=True)).run()


def outcomes() -> Counter[tuple[str | None, Any]]:
    """How often there is a job of each kind with each result, all of them ended."""
    jobs = list(engine.jobs())
    assert {job.state for job in jobs} == {JobState.DONE}
    return Counter((job.kind, str(job.result())) for job in jobs)


@pytest.mark.parametrize("way", ["never sent", "not answered"])
@pytest.mark.parametrize("verb", OUTSIDE)
def test_a_job_is_there_once_though_each_verb_gets_lost_once(lose: Lose, verb: str, way: Way) -> None:
    losing = lose({verb: cycle((way, "answered"))})
    plain = engine.enqueue(letter.of("plain"))
    keyed = [engine.enqueue(letter.of("keyed").unique("k")) for _ in range(2)]
    parts, total = engine.enqueue_many([letter.of("x"), letter.of("y").unique("y"), post.of("z")], then=bundle.of())
    after = plain.then(bundle.of())
    finish()
    again = engine.enqueue(letter.of("again").unique("k"), again=True)
    finish()
    assert [job.is_new for job in (plain, *keyed, *parts, total, after, again)] == [True, True, False, *[True] * 6]
    assert keyed[0] == keyed[1]
    assert outcomes() == Counter(
        {("letter", f"Dear {name}"): 1 for name in ("plain", "keyed", "x", "y", "again")}
        | {("post", "sent z"): 1, ("bundle", "['Dear plain']"): 1, ("bundle", str(total.result())): 1}
    )
    assert sorted(total.result()) == ["Dear x", "Dear y", "sent z"]
    assert verb in losing.lost


def test_whoever_is_not_answered_at_all_asks_again_under_a_key_and_has_one_job(lose: Lose) -> None:
    lose({"append": chain(repeat("not answered", 13), repeat("answered"))})
    with pytest.raises(StoreUnavailable):
        engine.enqueue(letter.of("ann").unique("k"))
    job = engine.enqueue(letter.of("ann").unique("k"))
    assert not job.is_new
    finish()
    assert (job.result(), trace) == ("Dear ann", ["ann"])


def test_a_key_that_was_given_up_before_the_verb_was_sent_again_is_taken(lose: Lose) -> None:
    def meanwhile() -> Iterator[Way]:
        yield from ("answered", "not answered")
        holders[0].cancel()
        yield from ("answered", "answered", "not answered")
        holders[1].cancel()

    lose({"append": meanwhile()})
    holders = engine.enqueue_many([letter.of("y").unique("k"), bundle.of().unique("k")])
    parts = engine.enqueue_many([letter.of("x"), letter.of("y").unique("k")])
    (other,), total = engine.enqueue_many([letter.of("z")], then=bundle.of().unique("k"))
    assert [job.state for job in holders] == [JobState.CANCELLED] * 2
    finish()
    assert [job.result() for job in (*parts, other, total)] == ["Dear x", "Dear y", "Dear z", ["Dear z"]]
    assert len(list(engine.jobs())) == 6


def test_many_that_enqueue_at_once_have_each_job_once_whatever_gets_lost(lose: Lose, seed: random.Random) -> None:
    def some_way() -> Way:
        return seed.choices(("answered", "never sent", "not answered"), (6, 1, 1))[0]

    # The first answer of each gets lost in any case.
    losing = lose({verb: chain(["not answered"], iter(some_way, None)) for verb in (*OUTSIDE, *WORKING)})

    def enqueue(number: int) -> int:
        name = f"{number}"
        match number % 4:
            case 0:
                return engine.enqueue(letter.of(name)).id
            case 1:
                return engine.enqueue(letter.of("shared").unique("k")).id
            case 2:
                return engine.enqueue(letter.of(name).unique()).id
            case _:
                return engine.enqueue_many([letter.of(name)], then=bundle.of())[1].id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(enqueue, range(80)))
    finish()
    assert len(set(ids)) == 61
    assert outcomes() == Counter(
        {("letter", f"Dear {n}"): 1 for n in range(80) if n % 4 != 1}
        | {("letter", "Dear shared"): 1}
        | {("bundle", f"['Dear {n}']"): 1 for n in range(3, 80, 4)}
    )
    assert {"append", "commit"} <= set(losing.lost)
