"""`note` and `logs`: log lines of tasks, kept all or none, each once by its process and number, in order of arrival.

They are no part of the work: they need no stamp, a reaped process may still write them, and vacuum leaves them alone.
A follower goes on with the cursor of its last page and misses nothing.
"""

from __future__ import annotations

from msgspec import structs

from ramify.errors import BadPayload, UnknownRun
from ramify.model.log import MAX_LOG_TEXT, LogLine
from ramify.model.process import Stamp
from ramify.testing.conformance.house import House, refused, want
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


def _line(n: int, run: int, task: int | None = None, level: int = 20, text: str = "here") -> LogLine:
    return LogLine(n, 1000 - n, run, task, 1, level, "walk.steps", text)


def _numbers(house: House, run: int, limit: int = 1000, **chosen: int) -> list[int]:
    return [
        stored.line.n for stored in every(lambda after: house.store.reads.logs(run, after=after, limit=limit, **chosen))
    ]


@case("note")
def lines_are_read_as_they_were_written(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    lines = [_line(1, run, 7, 10, "one"), LogLine(2, 5, run, None, 0, 50, "", "")]
    worker.store.note(worker.process, lines)
    stored = house.store.reads.logs(run).rows
    assert [found.line for found in stored] == lines
    assert {found.process for found in stored} == {worker.process}
    assert [found.seq for found in stored] == sorted({found.seq for found in stored})


@case("note")
def a_line_is_kept_once_however_often_it_is_written(house: House) -> None:
    run = house.run(house.tasks())
    one, two = house.worker(), house.worker()
    one.store.note(one.process, [_line(1, run), _line(2, run)])
    one.store.note(one.process, [_line(2, run, text="again"), _line(3, run), _line(3, run)])
    two.store.note(two.process, [_line(1, run)])
    assert _numbers(house, run) == [1, 2, 3, 1]
    assert {stored.line.text for stored in house.store.reads.logs(run).rows} == {"here"}


@case("note")
def lines_are_told_in_order_of_arrival_and_a_follower_misses_none(house: House) -> None:
    """Late lines come behind the cursor of a follower, whatever their numbers and their times."""
    run = house.run(house.tasks())
    one, two = house.worker(), house.worker()
    one.store.note(one.process, [_line(5, run), _line(3, run)])
    page = house.store.reads.logs(run)
    two.store.note(two.process, [_line(9, run)])
    one.store.note(one.process, [_line(1, run)])
    later = house.store.reads.logs(run, after=page.after)
    assert [stored.line.n for stored in page.rows] == [5, 3]
    assert [stored.line.n for stored in later.rows] == [9, 1]
    assert house.store.reads.logs(run, after=later.after).after == later.after
    for limit in (1, 3):
        assert _numbers(house, run, limit) == [5, 3, 9, 1]


@case("note")
def lines_are_chosen_by_run_task_and_level(house: House) -> None:
    run, other = house.run(house.tasks()), house.run(house.tasks())
    worker = house.worker()
    worker.store.note(
        worker.process,
        [
            _line(1, run, 7, 10),
            _line(2, run, 8, 30),
            _line(3, other, 7, 40),
            _line(4, run, None, 40),
            _line(5, run, 7, 40),
        ],
    )
    assert _numbers(house, run) == [1, 2, 4, 5]
    assert _numbers(house, other) == [3]
    assert _numbers(house, run, task=7) == [1, 5]
    assert _numbers(house, run, level=30) == [2, 4, 5]
    assert _numbers(house, run, 1, task=7, level=11) == [5]
    with refused(UnknownRun):
        house.store.reads.logs(2**40)
    with refused(BadPayload):
        house.store.reads.logs(run, limit=0)


@case("note")
def every_text_can_be_written(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    odd = structs.replace(_line(2, run, text="half a pair: \ud800"), logger="\udc80")
    long = _line(1, run, text="x" * (10 * MAX_LOG_TEXT))
    worker.store.note(worker.process, [long, odd, _line(3, run, text="a\0b\n")])
    first, second, third = (stored.line for stored in house.store.reads.logs(run).rows)
    assert len(first.text) <= MAX_LOG_TEXT
    assert first.text.startswith("xxx")
    assert second.text.startswith("half a pair: ")
    assert (second.text + second.logger).isprintable()
    assert third.text == "a\0b\n"


@case("note")
def lines_are_kept_all_or_none(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    with refused(BadPayload):
        worker.store.note(worker.process, [_line(1, run), _line(2**70, run)])
    assert _numbers(house, run) == []


@case("note")
def a_note_uses_no_stamp_and_touches_no_work(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(1)
    with house.nothing_changes():
        worker.store.note(worker.process, [_line(i, run, claim.tasks[0]) for i in range(1, 50)])
    assert worker.store.claim(Stamp(worker.process, worker.n), want(1)).claims[0].token == claim.token
    worker.done(claim)


@case("note")
def who_was_reaped_may_still_say_what_it_saw(house: House) -> None:
    run = house.run(house.tasks())
    frozen = house.worker()
    house.write_off(frozen)
    frozen.store.note(frozen.process, [_line(1, run)])
    assert _numbers(house, run) == [1]


@case("note")
def vacuum_leaves_lines_alone(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.store.note(worker.process, [_line(1, run)])
    house.finish(run)
    worker.store.leave(worker.process)
    house.clock.advance(10 * 86_400)
    house.store.vacuum()
    assert _numbers(house, run) == [1]
