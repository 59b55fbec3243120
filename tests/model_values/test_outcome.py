"""Recording an error can never fail."""

from typing import Any

import pytest

from ramify.model.event import Status
from ramify.model.outcome import (
    MAX_ERROR_TEXT,
    MAX_FRAMES,
    Cancelled,
    Deferred,
    Done,
    Failed,
    Failure,
    status_of,
    storable,
)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text today")


def sealed() -> Exception:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(f"no {name} today")

    class Sealed(Exception, metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            raise Sealed(name)

    return Sealed("x")


class Misplaced(Exception):
    __module__ = 7  # type: ignore[assignment]


class Loader:
    def get_source(self, name: str) -> str:
        raise RuntimeError("no source today")


def raised(error: BaseException, depth: int = 0) -> BaseException:
    try:
        if depth:
            raised_again(error, depth)
        raise error
    except BaseException as caught:  # noqa: BLE001 - the test wants whatever was raised
        return caught


def raised_again(error: BaseException, depth: int) -> None:
    if depth:
        raised_again(error, depth - 1)
    raise error


def test_a_failure_names_type_text_and_place() -> None:
    failure = Failure.of(raised(ValueError("bad port")))
    assert (failure.type, failure.text) == ("ValueError", "bad port")
    assert failure.frames[-1].endswith("in raised")


def test_an_error_of_ours_is_named_with_its_module() -> None:
    assert Failure.of(Mute()).type.endswith(".Mute")


def test_an_error_whose_text_cannot_be_read_is_still_recorded() -> None:
    assert "RuntimeError" in Failure.of(raised(Mute())).text


def test_an_error_that_refuses_every_attribute_is_recorded_with_its_name_and_its_frames() -> None:
    failure = Failure.of(raised(sealed()))
    assert failure.type == f"{__name__}.sealed.<locals>.Sealed"
    assert "Sealed" in failure.text
    assert failure.frames[-1].endswith("in raised")


def test_an_error_from_no_module_is_recorded_by_its_name() -> None:
    assert Failure.of(Misplaced("x")) == Failure("Misplaced", "x")


def test_an_error_whose_source_cannot_be_read_is_recorded_without_frames() -> None:
    globals = {"__name__": "odd", "__loader__": Loader()}
    code = compile("def fail():\n    raise ValueError('x')\n", "odd_source.py", "exec")
    exec(code, globals)
    with pytest.raises(ValueError) as caught:
        globals["fail"]()  # type: ignore[operator]
    failure = Failure.of(caught.value)
    assert (failure.type, failure.text) == ("ValueError", "x")
    assert failure.frames == ("(its frames could not be read: RuntimeError)",)


def test_notes_of_an_error_are_part_of_its_text_and_broken_ones_do_no_harm() -> None:
    error = ValueError("bad port")
    error.add_note("in hosts.txt")
    error.add_note("line 7")
    assert Failure.of(error).text == "bad port; in hosts.txt; line 7"
    broken = ValueError("bad port")
    broken.__notes__ = 7  # type: ignore[assignment]
    assert Failure.of(broken).text == "(its text could not be read: TypeError)"


def test_only_the_frames_nearest_the_raise_are_kept() -> None:
    failure = Failure.of(raised(ValueError("deep"), depth=50))
    assert len(failure.frames) == MAX_FRAMES
    assert failure.more_frames == 52 - MAX_FRAMES
    assert failure.frames[-1].endswith("in raised_again")


def test_endless_text_is_cut_and_says_so() -> None:
    failure = Failure.of(ValueError("x" * 10_000_000))
    assert len(failure.text) <= MAX_ERROR_TEXT
    assert failure.text.endswith("(10000000 characters)")


def test_lone_surrogates_are_escaped() -> None:
    assert storable("caf\udce9") == r"caf\udce9"
    assert Failure.decode(Failure.of(ValueError("\udcff")).encode()).text == r"\udcff"


def test_a_record_comes_back_and_a_foreign_value_becomes_its_text() -> None:
    failure = Failure.of(raised(KeyError("k")))
    assert Failure.decode(failure.encode()) == failure
    assert Failure.decode(None) == Failure("")
    assert Failure.decode(b'{"reason":"no"}').text == '{"reason":"no"}'


def test_every_outcome_has_one_status() -> None:
    assert status_of(Done()) is Status.DONE
    assert status_of(Failed(Failure("E"))) is Status.FAILED
    assert status_of(Failed(Failure("E"), retry_in=0.0)) is Status.RETRYING
    assert status_of(Deferred(3)) is Status.DEFERRED
    assert status_of(Cancelled()) is Status.CANCELLED
