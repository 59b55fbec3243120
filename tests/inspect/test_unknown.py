"""Kinds and queues that nobody knows."""

from ramify.inspect.status import status_of
from ramify.inspect.unknown import queues_in, unknown_among, unknown_in_words, unknown_queue_in_words
from ramify.model.join import NewJoins
from ramify.model.process import NewProcess, new_process_id
from ramify.testing.conformance import House


def hire(house: House, *kinds: str) -> None:
    house.client().enter(NewProcess(new_process_id(), kinds=kinds))


def test_unfinished_tasks_of_a_kind_that_no_live_process_knows_are_counted(house: House) -> None:
    run = house.run(house.tasks(3), house.tasks(2, kind="copy"))
    hire(house, "copy")
    found = house.store.reads.run(run)
    assert unknown_among(house.store.reads, [found]) == {"walk": 3}
    assert status_of(house.store, run).unknown == {"walk": 3}
    hire(house, "walk")
    assert unknown_among(house.store.reads, [found]) == {}


def test_a_kind_is_not_called_unknown_when_nobody_works_or_somebody_does_not_say(house: House) -> None:
    found = house.store.reads.run(house.run(house.tasks(3)))
    assert unknown_among(house.store.reads, [found]) == {}
    hire(house, "copy")
    assert unknown_among(house.store.reads, [found]) == {"walk": 3}
    # The worker of the house says nothing about its kinds.
    house.worker()
    assert unknown_among(house.store.reads, [found]) == {}


def test_a_command_at_work_knows_nothing_and_changes_nothing(house: House) -> None:
    found = house.store.reads.run(house.run(house.tasks(3)))
    hire(house)
    assert unknown_among(house.store.reads, [found]) == {}


def test_the_words_say_what_to_do() -> None:
    assert unknown_in_words("measure_old", 3) == (
        "3 tasks of kind 'measure_old' wait: no task of that name here; rename it back or give aliases=('measure_old',)"
    )
    assert unknown_in_words("a", 1).startswith("1 task of kind 'a' waits: ")


def test_the_queues_of_a_store_are_those_of_jobs_and_of_live_tasks(house: House) -> None:
    assert queues_in(house.store.reads) == set()
    house.any_run(house.tasks(queue="mail"), endless=True, name="jobs/mail")
    one = house.worker()
    one.done(one.take())
    waiting = house.tasks(kind="sum", queue="reports", waits=True)
    members = house.tasks(2, join=waiting.first, queue="loads")
    house.run(members, waiting, joins=[NewJoins.one(waiting.first, 2)], name="joins")
    assert queues_in(house.store.reads) == {"mail", "reports", "loads"}


def test_a_queue_that_nobody_knows_is_told_with_the_nearest_that_somebody_does() -> None:
    assert unknown_queue_in_words("maill", {"mail", "default"}) == (
        "queue 'maill': no task of this engine and no job of this store is in it. Did you mean 'mail'?"
    )
    assert unknown_queue_in_words("x", {"mail", "default"}).endswith("is in it. There are 'default', 'mail'.")
