"""`release`: put back what was not finished: neither failure nor crash. The answer are the tokens that were void."""

from __future__ import annotations

from ramify.errors import Reaped, StaleStamp
from ramify.model.death import NO_DEATHS, Death, Deaths
from ramify.model.event import UNTRIED, Status
from ramify.model.process import Stamp, new_token
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case


@case("release")
def what_was_not_finished_is_offered_again(house: House) -> None:
    house.run(house.tasks(5))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[1:3])
    assert worker.release(claim) is True
    left = [claim.tasks[0], *claim.tasks[3:]]
    assert house.offered() == left
    assert house.worker().claim(2)[0].token != claim.token


@case("release")
def it_is_neither_a_failure_nor_a_crash(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    assert not house.log()
    assert [(row.deaths, row.attempt) for row in house.live(run)] == [(NO_DEATHS, 0)]
    again = worker.take()
    assert again.deaths == NO_DEATHS
    assert all(again.history.get(task, UNTRIED) == UNTRIED for task in again.tasks)


@case("release")
def a_suspect_stays_a_suspect(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 5), evidence=True))
    worker = house.worker()
    worker.release(worker.take())
    assert [row.deaths for row in house.live(run)] == [Deaths(ran=1)]


@case("release")
def the_token_is_void_afterwards(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    with house.nothing_changes():
        assert worker.release(claim) is False


@case("release")
def a_void_token_puts_nothing_back(house: House) -> None:
    house.run(house.tasks(2))
    worker, other = house.worker(), house.worker()
    claim = worker.take()
    with house.nothing_changes():
        assert other.store.release(other.stamp(), [unknown := new_token()]) == (unknown,)
        assert other.release(claim) is False
    worker.done(claim)


@case("release")
def a_finished_row_cannot_be_put_back(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.done(claim)
    with house.nothing_changes():
        assert worker.release(claim) is False


@case("release")
def sent_again_with_the_same_stamp_it_answers_the_same(house: House) -> None:
    """Even when somebody else has claimed the row since."""
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    assert worker.release(claim)
    other = house.worker()
    taken = other.take()
    with house.nothing_changes():
        assert worker.store.release(worker.last, [claim.token]) == ()
    other.done(taken)


@case("release")
def an_older_stamp_puts_nothing_back(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    worker.n += 1
    worker.take(1)
    with house.nothing_changes(), refused(StaleStamp):
        worker.store.release(Stamp(worker.process, worker.n - 1), [claim.token])


@case("release")
def a_reaped_process_puts_nothing_back(house: House) -> None:
    house.run(house.tasks())
    frozen = house.worker()
    claim = frozen.take()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.release(claim)


@case("release")
def one_of_several_claims_is_put_back_alone(house: House) -> None:
    house.any_run(house.tasks(2), house.tasks(3))
    worker = house.worker()
    one, two = sorted(worker.claim(), key=lambda claim: claim.tasks[0])
    worker.release(one)
    assert house.offered() == list(one.tasks)
    worker.done(two)
    assert house.ended(two.tasks[0]) is Status.DONE


@case("release")
def several_claims_go_back_together(house: House) -> None:
    """A void token among them changes nothing for the others, and one that is named twice goes back once."""
    house.any_run(house.tasks(2), house.tasks(3), house.tasks(4))
    worker, other = house.worker(), house.worker()
    one, two, three = sorted(worker.claim(), key=lambda claim: claim.tasks[0])
    worker.done(two)
    tokens = [one.token, two.token, three.token, one.token]
    assert worker.store.release(worker.stamp(), tokens) == (two.token,)
    assert house.offered() == [*one.tasks, *three.tasks]
    taken = other.claim()
    with house.nothing_changes():
        assert worker.store.release(worker.last, tokens) == (two.token,)
        assert worker.store.release(worker.stamp(), tokens) == tuple(tokens)
    for claim in taken:
        other.done(claim)


@case("release")
def no_claim_at_all_is_put_back(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    with house.nothing_changes():
        assert worker.store.release(worker.stamp(), []) == ()
    worker.done(claim)
