"""`ramify topics` and `ramify follow`: what is published, who reads it, and to replay for a reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify import Engine
from tests.cli.conftest import Desk


def count(number: int) -> None:
    """Handle a number."""


@pytest.fixture
def engine(folder: Path, desk: Desk) -> Iterator[Engine]:
    """A program on the store of the desk, with a reader."""
    made = Engine(folder / "walk.db")
    numbers = made.topic("numbers", int, keep=3_600)
    made.on(numbers, ordered=True)(count)
    made.topic("words.en", str)
    yield made
    made.close()


def test_there_is_no_topic(desk: Desk) -> None:
    assert desk.out("topics").startswith("no topics. Write orders = ")
    assert desk.json("topics") == []
    assert "no topic 'numbers' in this store: there are none" in desk.err("follow", "numbers", code=2)


def test_topics_are_listed_with_their_readers(desk: Desk, engine: Engine) -> None:
    numbers = engine.topic("numbers", int, keep=3_600)
    numbers.publish_many(range(1_500), key=str)
    next(iter(numbers.read("billing")))
    head, first, second, third = desk.out("topics").splitlines()
    assert head.split() == ["topic", "publications", "kept", "reader", "handled", "lag", "by"]
    assert first.split() == ["numbers", "1", "to", "1,500", "1", "h", "0", "min", "billing", "0", "1,500", "by", "hand"]
    assert second.split() == ["count", "0", "1,500", "task", "count,", "in", "order"]
    assert third.split() == ["words.en", "none", "for", "ever"]
    row, words = desk.json("topics")
    assert (row["topic"], row["first"], row["last"], row["keep_seconds"]) == ("numbers", 1, 1_500, 3_600)
    assert [(each["reader"], each["lag"], each["kind"]) for each in row["readers"]] == [
        ("billing", 1_500, None),
        ("count", 1_500, "count"),
    ]
    assert (words["last"], words["readers"]) == (0, [])


def test_a_reader_is_given_again_what_was_published(desk: Desk, engine: Engine) -> None:
    numbers = engine.topic("numbers", int, keep=3_600)
    numbers.publish_many(range(4))
    assert len(list(numbers.read("billing"))) == 4
    assert desk.out("topics", "replay", "billing", "--since", "1") == "billing: goes on in numbers after 1\n"
    assert [each.number for each in numbers.read("billing")] == [2, 3, 4]
    assert desk.json("topics", "replay", "billing", "numbers", "--since", "2h") == [
        {"reader": "billing", "topic": "numbers", "number": 0}
    ]
    assert len(list(numbers.read("billing"))) == 4
    desk.type("topics", "replay", "billing", "--since", "2999-01-01")
    assert list(numbers.read("billing")) == []


def test_a_reader_is_removed(desk: Desk, engine: Engine) -> None:
    numbers = engine.topic("numbers", int, keep=3_600)
    numbers.publish(1)
    assert desk.out("topics", "remove", "count") == "count: removed\n"
    pump = engine._runtime.topics.pump()
    assert not pump.step()
    assert desk.json("topics")[0]["readers"] == []
    assert "no reader 'count' in this store: there are none" in desk.err("topics", "remove", "count", code=2)


def test_nothing_is_published_for_a_reader_that_was_removed(desk: Desk, engine: Engine) -> None:
    assert list(engine.failures.read("watch")) == []
    assert [each["topic"] for each in desk.json("topics")] == ["ramify.failures"]
    desk.type("topics", "remove", "watch")
    assert desk.json("topics") == []


@pytest.mark.parametrize("since", ["-1", "soon", "2030-13-01", "99999999999999999999", "\x1b"])
def test_what_is_no_place_is_refused(desk: Desk, engine: Engine, since: str) -> None:
    engine.topic("numbers", int, keep=3_600).publish(1)
    assert "expected a number, 2h or" in desk.err("topics", "replay", "count", "--since", since, code=2)


def test_a_topic_that_a_reader_does_not_read_is_refused(desk: Desk, engine: Engine) -> None:
    engine.topic("numbers", int, keep=3_600).publish(1)
    said = desk.err("topics", "replay", "count", "words.en", "--since", "0", code=2)
    assert "expected a topic that 'count' reads: numbers" in said


def test_follow_shows_what_is_there(desk: Desk, engine: Engine) -> None:
    words = engine.topic("words.en", str)
    words.publish("one", key="a")
    words.publish("two \udc80")
    first, second = desk.out("follow", "words.en", "--since", "0", "--no-wait").splitlines()
    assert first.endswith('1  a  "one"')
    assert second.endswith('2  "two \\udc80"')
    (found,) = desk.json("follow", "words.en", "--since", "1", "--no-wait")
    assert (found["number"], found["value"], found["key"], found["task"]) == (2, "two \udc80", None, None)
    assert desk.out("follow", "words.en", "--no-wait") == ""


def test_follow_waits_for_what_comes(desk: Desk, engine: Engine, folder: Path) -> None:
    words = engine.topic("words.en", str)
    words.publish("before")
    command = [sys.executable, "-m", "ramify", "follow", "words.en", "-s", str(folder / "walk.db"), "--since", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline().endswith('1  "before"\n')
        words.publish("after")
        assert follower.stdout.readline().endswith('2  "after"\n')
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 130
