"""Stored bytes as something to look at."""

import pytest

from ramify.inspect.show import call_text, event_text, key_text, tree_of
from ramify.model.codec import Signature
from ramify.model.context import ContextValue, outrun_by
from ramify.model.event import Event, Status
from ramify.model.key import key_bytes
from ramify.model.mark import reason_value
from ramify.model.outcome import Failure

FIRST = ContextValue("total", b"1", 7, 0, 0)


def copy(path: str, depth: int = 0, *, deep: bool = False) -> None: ...


def test_a_call_looks_as_one_writes_it() -> None:
    signature = Signature.of(copy)
    assert call_text("copy", signature.encode(("/ü",), {})) == 'copy("/ü")'
    assert call_text("copy", signature.encode(("/a", 2), {"deep": True})) == 'copy(path="/a", depth=2, deep=true)'


def test_file_names_that_are_not_utf8_come_back_as_they_were() -> None:
    body = Signature.of(copy).encode(("a\udcff~",), {})
    assert tree_of(body) == ["a\udcff~"]
    assert key_text(key_bytes("a\udcff")) == "a\udcff"


@pytest.mark.parametrize("raw", [b"\xff\x00", b"[1,", b"", b'{"~":3}', b"[" * 5000 + b"]" * 5000])
def test_bytes_in_no_form_of_ours_are_shown_as_text(raw: bytes) -> None:
    assert isinstance(call_text("copy", raw), str)
    assert isinstance(key_text(raw), str)


@pytest.mark.parametrize(
    ("status", "value", "says"),
    [
        (Status.DONE, b"12", "attempt 2 was done: 12"),
        (Status.DONE, None, "attempt 2 was done"),
        (Status.FAILED, Failure("OSError", "gone").encode(), "attempt 2 failed, and it was the last: OSError: gone"),
        (Status.RETRYING, Failure("OSError").encode(), "attempt 2 failed, to be tried again: OSError"),
        (
            Status.FAILED,
            Failure("ramify.kernel.attempts.control.Fatal", "gone").encode(),
            "attempt 2 failed, and it was the last: gone",
        ),
        (
            Status.RETRYING,
            Failure("ramify.errors.BadPayload").encode(),
            "attempt 2 failed, to be tried again: ramify.errors.BadPayload",
        ),
        (Status.DEFERRED, None, "attempt 2 put itself off"),
        (Status.CANCELLED, reason_value("enough"), "cancelled: enough"),
        (Status.SKIPPED, None, "skipped"),
        (Status.QUARANTINED, Failure("", "killed 5").encode(), "quarantined: killed 5"),
        (Status.REOPENED, reason_value("disk is back"), "opened again: disk is back"),
        (Status.REOPENED, reason_value("", "ann"), "opened again by ann"),
        (Status.DECIDED, reason_value("known", "ann"), "decided by ann: known"),
        (Status.OUTRUN, outrun_by(FIRST), 'came too late with a value of the context: task 7 had set "total" before'),
        (Status.OUTRUN, None, "came too late with a value of the context"),
    ],
)
def test_an_event_in_words(status: Status, value: bytes | None, says: str) -> None:
    assert event_text(Event(1, 1, status, value), 2) == says
