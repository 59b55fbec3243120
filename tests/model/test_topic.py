"""Publications are taken topic by topic, in an order that is the same for all; topics of stores tell whole stories."""

import msgspec

from ramify.model.codec.wire import Wire
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.model.own_topics import (
    EndedRun,
    FailedTask,
    StoredTopic,
    failed_task,
    listened,
    of_ends,
    of_failures,
    read_topic,
    write_topic,
)
from ramify.model.run import NewRun, RunState, StoredRun
from ramify.model.topic import MAX_PUBLICATION, Publication, TopicNumbers, by_topic
from ramify.model.value import StoredValue

RUN = StoredRun(
    **msgspec.structs.asdict(NewRun(7, "walk", 2, "frontier")),
    state=RunState.FAILED, round=0, reason="late", created=1, ended=2, since=0,
)  # fmt: skip


def test_topics_come_in_name_order_and_publications_in_the_order_sent() -> None:
    sent = [Publication("b", b"1"), Publication("é", b"2"), Publication("a", b"3"), Publication("b", b"4")]
    assert [(name, [new.value for new in some]) for name, some in by_topic(sent)] == [
        ("a", [b"3"]),
        ("b", [b"1", b"4"]),
        ("é", [b"2"]),
    ]


def test_a_publication_expires_after_it_was_stored() -> None:
    assert Publication("a", b"", keep=5).stored(1, 100).expires == 105
    assert Publication("a", b"", keep=0).stored(1, 100).expires == 100
    assert Publication("a", b"").stored(1, 100).expires is None


def test_a_topic_of_which_nothing_is_kept_holds_nothing() -> None:
    assert (TopicNumbers("a", 4, 3).kept, TopicNumbers("a", 1, 3).kept) == (0, 3)


def test_a_declaration_is_read_as_it_was_written() -> None:
    declared = StoredTopic(5, "v2", 77)
    assert read_topic(write_topic(declared)) == declared
    value = StoredValue("s", "n", write_topic(declared), 1, expires=100)
    assert (listened(value, 99), listened(value, 100), listened(None, 0)) == (declared, None, None)
    assert read_topic(b'{"keep":5,"of":"a later version"}') == StoredTopic(5)


def test_a_failure_is_read_as_it_was_told_whatever_its_key_and_error_are() -> None:
    key, error = "a\udc80~".encode("utf-8", "surrogatepass"), Failure("E", "text", ("a.py:1 in f",))
    told = failed_task(RUN, "walk", 9, key, 3, Status.QUARANTINED, error.encode())
    (new,) = of_failures(StoredTopic(5), [told])
    assert (new.topic, new.key, new.keep, new.task) == ("ramify.failures", "walk", 5, 9)
    assert Wire(FailedTask).read(new.value) == told
    assert told == FailedTask(7, "walk", 9, "walk", "a\udc80~", "quarantined", 3, error)
    for odd in (None, b"\xff", b"[1]"):
        (new,) = of_failures(StoredTopic(), [failed_task(RUN, "walk", 9, b"\0\xff", 1, Status.FAILED, odd)])
        assert (Wire(FailedTask).read(new.value).status, Wire(FailedTask).read(new.value).key) == ("failed", "\0\\xff")


def test_a_failure_that_is_too_long_is_told_without_what_led_to_it() -> None:
    error = Failure("E", "text", ("f" * MAX_PUBLICATION,), cause=Failure("C"))
    (new,) = of_failures(StoredTopic(), [failed_task(RUN, "walk", 9, None, 1, Status.FAILED, error.encode())])
    assert Wire(FailedTask).read(new.value).error == Failure("E", "text")


def test_the_end_of_a_run_is_told_under_its_name() -> None:
    (new,) = of_ends(StoredTopic(), [RUN])
    assert (new.topic, new.key, new.keep, new.task) == ("ramify.run_ends", "walk", None, None)
    assert Wire(EndedRun).read(new.value) == EndedRun(7, "walk", 2, "frontier", RunState.FAILED, "late")
