"""`reserve`: the first of so many ids that nobody else will ever get. Gaps are normal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ramify.model.task import MAX_ID
from ramify.testing.conformance.house import House
from ramify.testing.conformance.registry import case


@case("reserve")
def blocks_never_overlap(house: House) -> None:
    clients = [house.store, house.client(), house.client()]
    ids = [id for i in range(60) for id in _block(clients[i % 3].reserve(1 + i % 7), 1 + i % 7)]
    assert len(ids) == len(set(ids))


@case("reserve")
def threads_that_share_a_client_get_different_blocks(house: House) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(house.store.reserve, [1] * 200))
    assert len(set(ids)) == 200


@case("reserve")
def ids_are_positive_and_fit_every_store(house: House) -> None:
    first = house.store.reserve(1_000_000)
    assert 0 < first < first + 1_000_000 <= MAX_ID
    assert house.store.reserve(1) not in range(first, first + 1_000_000)


@case("reserve")
def the_block_of_a_process_that_died_is_wasted_and_not_given_again(house: House) -> None:
    worker = house.worker()
    wasted = worker.store.reserve(10)
    house.bury(worker)
    assert house.client().reserve(1) not in range(wasted, wasted + 10)


@case("reserve")
def ids_of_tasks_in_the_log_are_never_given_again(house: House) -> None:
    tasks = house.tasks(10)
    house.run(tasks)
    house.close()
    house.store = house.client()
    assert all(house.store.reserve(1) not in tasks.ids for _ in range(20))


@case("reserve")
def blocks_rise_whichever_client_asks(house: House) -> None:
    clients = [house.store, house.client(), house.client()]
    firsts = [clients[i % 3].reserve(1 + i % 7) for i in range(60)]
    assert firsts == sorted(firsts)


def _block(first: int, count: int) -> range:
    return range(first, first + count)
