"""What may enter the log is checked once, at the seam."""

import pytest

from ramify.errors import BadPayload
from ramify.model.commit import Later, Part, check_part
from ramify.model.event import Status
from ramify.model.task import MAX_KEY, MAX_PAYLOAD, NewTasks, check_name, check_tasks


@pytest.mark.parametrize("name", ["", "a\0b", "caf\udce9", "x" * 256, 7, None, b"bytes"])
def test_a_name_no_store_could_keep_is_refused(name: object) -> None:
    with pytest.raises(BadPayload, match="lane"):
        check_name("lane", name)


@pytest.mark.parametrize("bad", ["", "b\0", "x" * 256, 3, "\ud800"])
def test_a_lane_among_many_is_checked_like_one(bad: str) -> None:
    with pytest.raises(BadPayload, match="lane"):
        check_tasks(NewTasks(1, "k", [b"", b"", b""], lanes=["a", bad, "b"]))
    check_tasks(NewTasks(1, "k", [b"", b""], lanes=["a", "\u00e9"]))


@pytest.mark.parametrize("name", ["a", "naïve", "日本", "a b/c", "x" * 255])
def test_ordinary_names_pass(name: str) -> None:
    assert check_name("kind", name) == name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bodies": []}, "empty"),
        ({"first": 0}, "not reserved"),
        ({"first": 2**63}, "not reserved"),
        ({"parents": [1]}, "parents has 1 values for 2"),
        ({"keys": [b"k"]}, "keys has 1"),
        ({"details": [None] * 3}, "details has 3"),
        ({"priority": 5000}, "levels run from"),
        ({"bodies": [b"x" * (MAX_PAYLOAD + 1), b""]}, "the limit is 1048576"),
        ({"keys": [b"x" * (MAX_KEY + 1), None]}, "use a hash"),
        ({"waits": True, "due": -5}, "give 0 or more"),
        ({"kind": ""}, "kind is empty"),
        ({"queue": "a\0"}, "queue"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_say_why(change: dict[str, object], says: str) -> None:
    fields: dict[str, object] = {"first": 1, "kind": "k", "bodies": [b"[]", b"[]"]} | change
    with pytest.raises(BadPayload, match=says):
        check_tasks(NewTasks(**fields))  # type: ignore[arg-type]


def test_the_largest_payload_passes() -> None:
    check_tasks(NewTasks(1, "k", [b"x" * MAX_PAYLOAD]))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Part(b"t", [1, 1]), "appears twice"),
        (Part(b"t", [1, 2], [Status.DONE]), "statuses has 1"),
        (Part(b"t", [1], values=[None, None]), "values has 2"),
        (Part(b"t", [1], Status.REOPENED), "written by stores themselves"),
        (Part(b"t", [1], values=[b"x" * (MAX_PAYLOAD + 1)]), "return a reference"),
        (Part(b"t", [1], Status.DONE, later=[Later([1], 5)]), "`later`"),
        (Part(b"t", [1], Status.RETRYING, later=[Later([1, 1], 5)]), "`later`"),
        (Part(b"t", [5], heirs={5: 9}), "no child in it"),
        (Part(b"t", [5], children=[NewTasks(4, "k", [b""])], heirs={5: 4}), "smaller id"),
    ],
)
def test_a_part_that_contradicts_itself_is_refused(part: Part, says: str) -> None:
    with pytest.raises(BadPayload, match=says):
        check_part(part)


def test_a_part_knows_its_columns_whichever_way_they_were_given() -> None:
    part = Part(b"t", range(1, 4), [Status.DONE, Status.RETRYING, Status.FAILED])
    assert part.ended() == [1, 3]
    assert part.value_column() == [None] * 3
    assert Part(b"t", range(1, 4)).ended() == range(1, 4)
    assert Part(b"t", [1], Status.DEFERRED).ended() == ()
    assert NewTasks(1, "k", [b"a", b"b"], 9).parent_column() == [9, 9]
