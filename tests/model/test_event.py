"""How events fold into what is true of a task."""

from ramify.model.event import ENDS, UNTRIED, Event, Status, fold
from ramify.model.mark import Settled


def log(*statuses: Status) -> list[Event]:
    return [Event(7, n, status) for n, status in enumerate(statuses, 1)]


def test_a_task_without_events_is_untried() -> None:
    assert fold([]) == UNTRIED


def test_only_failed_attempts_use_up_attempts() -> None:
    assert fold(log(Status.RETRYING, Status.DEFERRED, Status.RETRYING)).attempts == 2
    assert fold(log(Status.RETRYING, Status.FAILED)).attempts == 2


def test_every_end_ends_and_nothing_else_does() -> None:
    for status in Status:
        ended = fold(log(status)).ended
        assert (ended is status) == (status in ENDS) == status.is_end


def test_a_reopened_task_begins_a_new_life_with_a_full_budget() -> None:
    history = fold(log(Status.RETRYING, Status.FAILED, Status.REOPENED, Status.RETRYING))
    assert (history.life, history.attempts, history.ended, history.events) == (2, 1, None, 4)


def test_deferrals_are_those_of_the_present_life() -> None:
    before = log(Status.DEFERRED, Status.DEFERRED, Status.RETRYING, Status.DONE)
    assert fold(before).deferrals == 2
    assert fold([*before, Event(7, 5, Status.REOPENED), Event(7, 6, Status.DEFERRED)]).deferrals == 1


def test_only_running_a_success_again_counts_as_a_revival() -> None:
    assert fold(log(Status.FAILED, Status.REOPENED)).revivals == 0
    assert fold(log(Status.DONE, Status.REOPENED)).revivals == 1


def test_a_status_and_what_a_decision_achieved_print_as_words() -> None:
    assert (f"{Status.FAILED}", str(Status.QUARANTINED), f"{Status.FAILED:d}") == ("failed", "quarantined", "2")
    assert [f"{answer}" for answer in Settled] == ["certain", "requested", "ended", "unknown", "overtaken"]
