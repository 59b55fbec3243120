"""engine.values(...): values that all processes of a store share, each change made at once and by itself."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import BadPayload, ConfigError, Engine, Tasks, ValueContended, Values, current
from ramify.engine import values as module
from ramify.engine.processes.importing import importing
from ramify.model.value import MAX_VALUE, MOST_TRIES
from ramify.testing import using
from tests.engine.conftest import Make

jobs = Tasks()
#: Set by a test: what a task does.
act: list[Callable[[], Any]] = [lambda: None]


@jobs.task(retries=0)
def step(name: str) -> Any:
    return act[0]()


@dataclasses.dataclass
class Quota:
    used: int
    until: date


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(jobs)


@pytest.fixture
def quotas(engine: Engine) -> Values[int]:
    return engine.values("quota", int)


def test_a_value_is_what_was_last_set(quotas: Values[int], make: Make) -> None:
    assert (quotas.get("acme"), quotas.get("acme", 7)) == (None, 7)
    quotas.set("acme", 1)
    quotas.set("acme", 2)
    assert (quotas.get("acme"), quotas.get("acme", 7)) == (2, 2)
    assert quotas.delete("acme")
    assert not quotas.delete("acme")
    assert quotas.get("acme") is None


def test_the_values_of_a_file_are_the_same_to_every_engine(tmp_path: Path) -> None:
    one, two = (Engine(tmp_path / "test.db").values("quota", int) for _ in range(2))
    one.set("acme", 1)
    assert two.update("acme", lambda value: value + 1) == 2
    assert one.get("acme") == 2


def test_values_of_a_type_go_through_the_codec_and_spaces_are_apart(engine: Engine) -> None:
    quota = Quota(1, date(2030, 1, 1))
    engine.values("quota", Quota).set("acme", quota)
    engine.values("quotas", list[Quota]).set("acme", [quota])
    assert engine.values("quota", Quota).get("acme") == quota
    assert engine.values("quotas", list[Quota]).get("acme") == [quota]
    assert engine.values("quota", dict[str, Any]).get("acme") == {"used": 1, "until": "2030-01-01"}
    assert engine.values("none", int | None).get("acme", 3) == 3
    with pytest.raises(BadPayload, match=r"values\('quota'\): the stored value of 'acme' does not fit <class 'int'>"):
        engine.values("quota", int).get("acme")


def test_an_update_is_what_its_function_makes_of_the_value_or_of_the_default(quotas: Values[int]) -> None:
    assert quotas.update("acme", lambda value: value + 1, default=5) == 6
    assert quotas.update("acme", lambda value: value + 1, default=5) == 7
    with pytest.raises(KeyError, match=r"update.*'other'.*there is no such value. Give default="):
        quotas.update("other", lambda value: value + 1)
    assert (quotas.get("acme"), quotas.get("other")) == (7, None)


def test_an_update_whose_function_raises_changes_nothing(quotas: Values[int]) -> None:
    quotas.set("acme", 1)
    with pytest.raises(ZeroDivisionError):
        quotas.update("acme", lambda value: value // 0)
    assert quotas.get("acme") == 1


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_a_change_that_somebody_else_overtook_is_made_anew(quotas: Values[int], verb: str) -> None:
    quotas.set("acme", 1)
    seen: list[int] = []
    honest = quotas._swap

    def swap(*given: Any) -> bool:
        if not seen:
            seen.append(1)
            quotas.set("acme", 10)
            seen.append(2)
        return honest(*given)

    quotas._swap = swap  # type: ignore[method-assign,assignment]
    if verb == "update":
        assert quotas.update("acme", lambda value: value + 1) == 11
    else:
        assert quotas.delete("acme")
    assert quotas.get("acme") == (11 if verb == "update" else None)


def test_many_threads_and_engines_that_update_one_value_lose_no_update(make: Make) -> None:
    engines = [make() for _ in range(3)]
    if not engines[0]._runtime.store.describe().shared:
        engines = engines[:1]
    with ThreadPoolExecutor(6) as pool:
        made = list(
            pool.map(
                lambda n: engines[n % len(engines)].values("n", int).update("all", lambda x: x + 1, default=0),
                range(60),
            )
        )
    assert sorted(made) == list(range(1, 61))


def test_an_update_that_always_loses_says_so_and_what_to_do(
    quotas: Values[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ramify.engine.values.time.sleep", pauses.append)
    tries: list[int] = []

    def meddle(value: int) -> int:
        tries.append(value)
        quotas.set("acme", value + 10)
        return 0

    with pytest.raises(
        ValueContended,
        match=r"values\('quota'\).update\('acme'\): others changed the value 101 times in a row between its read and "
        r"its change. Split it into several values, or change it less often.",
    ):
        quotas.update("acme", meddle, default=0)
    assert len(tries) == MOST_TRIES + 1
    assert quotas.get("acme") == 10 * (MOST_TRIES + 1)
    assert len(pauses) == MOST_TRIES
    assert max(pauses) <= 0.05


def test_a_value_expires_by_the_clock_of_the_store() -> None:
    engine = Engine("memory:", include=[jobs])
    with using(engine) as bench:
        quotas = engine.values("quota", int)
        quotas.set("acme", 1, ttl=timedelta(minutes=1))
        quotas.update("other", lambda value: value + 1, default=0, ttl=120)
        bench.advance(59)
        assert (quotas.get("acme"), quotas.get("other")) == (1, 1)
        bench.advance(2)
        assert (quotas.get("acme"), quotas.get("other")) == (None, 1)
        assert list(quotas.items()) == [("other", 1)]
        assert not quotas.delete("acme")
        assert quotas.update("acme", lambda value: value + 1, default=7) == 8
        quotas.set("other", 5)
        bench.advance(3_600)
        assert list(quotas.items()) == [("acme", 8), ("other", 5)], "the last change counts"


def test_items_are_names_and_values_by_name_page_by_page(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_LIMIT", 3)
    quotas, others = engine.values("quota", int), engine.values("quotas", int)
    for at, name in enumerate(["b", "a", "é", "c", "A", "d"]):
        quotas.set(name, at)
        others.set(name, -1)
    assert list(quotas.items()) == [("A", 4), ("a", 1), ("b", 0), ("c", 3), ("d", 5), ("é", 2)]
    assert list(engine.values("none", int).items()) == []


def test_in_a_task_they_act_at_once_whatever_becomes_of_it(engine: Engine, quotas: Values[int]) -> None:
    def fails() -> None:
        quotas.set("outside", 1)
        current().values("quota", int).set("inside", 1)
        assert quotas.get("inside") is None
        raise ValueError("no")

    act[0] = fails
    engine.run(step.of("x"))
    assert dict(quotas.items()) == {"outside": 1}


def test_coroutines_use_the_same_calls(engine: Engine, quotas: Values[int]) -> None:
    async def main() -> int | None:
        await asyncio.to_thread(quotas.set, "acme", 1)
        return quotas.get("acme")

    assert asyncio.run(main()) == 1


def test_what_cannot_be_kept_is_refused(engine: Engine, quotas: Values[int]) -> None:
    text = engine.values("text", str)
    refused: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: quotas.set("acme", "1"), BadPayload, r"values\('quota'\): `acme`: expected int, got a str"),  # type: ignore[arg-type]
        (lambda: quotas.update("acme", str, default=1), BadPayload, "expected int, got a str"),  # type: ignore[arg-type]
        (lambda: text.set("a", "x" * MAX_VALUE), BadPayload, "takes 65,538 bytes, and a value may take 65,536"),
        (lambda: quotas.set("", 1), BadPayload, "the name of a value is empty"),
        (lambda: quotas.get("a\0"), BadPayload, "NUL"),
        (lambda: quotas.set("acme", 1, ttl=0), ConfigError, r"set\(ttl=0\): expected a time above 0"),
        (lambda: engine.values("", int), BadPayload, "the space of a value is empty"),
    ]
    for call, error, why in refused:
        with pytest.raises(error, match=why):
            call()
    assert list(quotas.items()) == []


def test_nothing_is_changed_by_a_module_that_is_imported_for_its_engine(quotas: Values[int]) -> None:
    with importing("shop"), pytest.raises(ConfigError, match=r"engine.values\(...\).set\(\) was called while"):
        quotas.set("acme", 1)
    assert quotas.get("acme") is None


def test_a_handle_opens_nothing_and_goes_on_after_its_engine_was_closed(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "test.db")
    quotas = engine.values("quota", int)
    assert not (tmp_path / "test.db").exists()
    quotas.set("acme", 1)
    engine.close()
    assert quotas.update("acme", lambda value: value + 1) == 2


def test_threads_change_values_while_their_engine_works(engine: Engine, quotas: Values[int]) -> None:
    act[0] = lambda: current().values("quota", int).update("acme", lambda value: value + 1, default=0)
    done = threading.Event()

    def outside() -> None:
        while not done.wait(0.01):
            quotas.update("acme", lambda value: value + 1, default=0)
            added.append(1)

    added: list[int] = []
    thread = threading.Thread(target=outside)
    thread.start()
    try:
        run = engine.run([step.of(str(n)) for n in range(30)])
    finally:
        done.set()
        thread.join()
    assert run.counts.done == 30
    assert quotas.get("acme") == 30 + len(added)
