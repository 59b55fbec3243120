"""Recording an error can never fail."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ramify.model.event import Status
from ramify.model.outcome import (
    MAX_ERROR_TEXT,
    MAX_EXCEPTIONS,
    MAX_FRAMES,
    MAX_TRACEBACK,
    Cancelled,
    Deferred,
    Done,
    Failed,
    Failure,
    TaskError,
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


def test_an_error_whose_source_cannot_be_read_is_recorded_without_lines_of_code() -> None:
    globals = {"__name__": "odd", "__loader__": Loader()}
    code = compile("def fail():\n    raise ValueError('x')\n", "odd_source.py", "exec")
    exec(code, globals)
    with pytest.raises(ValueError) as caught:
        globals["fail"]()  # type: ignore[operator]
    failure = Failure.of(caught.value)
    assert (failure.type, failure.text) == ("ValueError", "x")
    assert failure.frames[-1] == "odd_source.py:2 in fail"
    assert failure.source[-1] == ""


def test_notes_of_an_error_are_part_of_its_text_and_broken_ones_do_no_harm() -> None:
    error = ValueError("bad port")
    error.add_note("in hosts.txt")
    error.add_note("line 7")
    assert Failure.of(error).text == "bad port; in hosts.txt; line 7"
    broken = ValueError("bad port")
    broken.__notes__ = 7  # type: ignore[assignment]
    assert Failure.of(broken).text == "(its text could not be read: TypeError)"


def test_only_the_frames_nearest_the_raise_are_kept() -> None:
    failure = Failure.of(raised(ValueError("deep"), depth=80))
    assert len(failure.frames) == MAX_FRAMES
    assert failure.more_frames == 82 - MAX_FRAMES
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


CODES: dict[str, int] = {}


def chained() -> BaseException:
    """An error raised from one that was raised while a third was handled."""
    try:
        try:
            try:
                CODES["x"]
            except KeyError:
                int("seven")
        except ValueError as error:
            raise RuntimeError("outer") from error
    except RuntimeError as caught:
        return caught
    raise AssertionError


def without_carets(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if set(line.strip()) - set("^~") or not line.strip())


@pytest.mark.parametrize("make", [chained, lambda: raised(ValueError("two\nlines")), lambda: ValueError("not raised")])
def test_the_traceback_is_the_one_that_python_prints(make: Callable[[], BaseException]) -> None:
    error = make()
    failure = Failure.decode(Failure.of(error).encode())
    assert failure.traceback == without_carets("".join(traceback.format_exception(error)))


def test_a_cause_and_a_context_are_kept_with_the_lines_of_code() -> None:
    failure = Failure.of(chained())
    assert failure.source == ('raise RuntimeError("outer") from error',)
    assert failure.cause is not None
    assert failure.context is None
    assert (failure.cause.type, failure.cause.source) == ("ValueError", ('int("seven")',))
    assert failure.cause.context is not None
    assert (failure.cause.context.type, failure.cause.context.source) == ("KeyError", ('CODES["x"]',))


def test_a_context_that_python_would_not_show_is_left_out() -> None:
    with pytest.raises(ValueError) as caught:
        try:
            raise KeyError("k")
        except KeyError:
            raise ValueError("v") from None
    assert Failure.of(caught.value).context is None


def test_members_of_a_group_are_kept_with_their_tracebacks() -> None:
    failure = Failure.of(raised(ExceptionGroup("both", [raised(OSError("disk")), raised(KeyError("k"))])))  # type: ignore[type-var]  # they are exceptions
    assert [(each.type, each.text) for each in failure.members] == [("OSError", "disk"), ("KeyError", "'k'")]
    assert "  | OSError: disk\n  +---- 2 of 2 ----\n" in failure.traceback


def test_causes_that_lead_back_to_themselves_are_recorded_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    failure = Failure.of(first)
    assert failure.cause == Failure("ValueError", "second")


def test_a_chain_without_end_is_cut_and_says_so() -> None:
    error = last = ValueError("0")
    for number in range(1, 5_000):
        last.__context__ = ValueError(f"{number}")
        last = last.__context__
    failure: Failure | None = Failure.of(error)
    seen = []
    while failure is not None:
        seen.append(failure.text)
        failure = failure.context
    assert seen == [*map(str, range(MAX_EXCEPTIONS)), "(more exceptions are left out)"]


class Prying(Exception):
    """Refuses to tell what led to it by its attributes."""

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no cause today")

    @property
    def __context__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no context today")

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no traceback today")


def test_an_error_that_hides_what_led_to_it_is_recorded_all_the_same() -> None:
    try:
        raise Prying("x") from KeyError("k")
    except Prying as error:
        failure = Failure.of(error)
    assert failure.cause == Failure("KeyError", "'k'")
    assert failure.frames[-1].endswith("recorded_all_the_same")


def test_a_record_never_grows_beyond_its_bound() -> None:
    """Control characters take six bytes each; frames, names, texts and source lines are as long as one likes."""
    scope: dict[str, Any] = {}
    name = "f" * 5_000
    lines = f"def {name}(depth, error):\n  {name}(depth - 1, error) if depth else error()  # {'x' * 10_000}\n"
    exec(compile(lines, "\x01" * 5_000, "exec"), scope)

    def long(cause: BaseException | None) -> BaseException:
        def fail() -> None:
            raise ExceptionGroup("\x01" * 50_000, [ValueError("\x01" * 50_000)] * 100) from cause

        try:
            scope[name](200, fail)
        except ExceptionGroup as error:
            return error
        raise AssertionError

    error = long(None)
    for _ in range(30):
        error = long(error)
    failure = Failure.of(error)
    assert len(failure.encode()) <= MAX_TRACEBACK + 6 * 2 * MAX_ERROR_TEXT + 2_000
    assert failure.more_frames
    assert failure.cause is not None
    assert failure.cause.type.startswith("ExceptionGroup"), "there is room for what led to it"


def test_frames_of_ramify_are_left_out_unless_there_are_no_others() -> None:
    with pytest.raises(TypeError) as caught:
        storable(7)  # type: ignore[arg-type]
    name = "test_frames_of_ramify_are_left_out_unless_there_are_no_others"
    assert [frame.rpartition(" ")[2] for frame in Failure.of(caught.value).frames] == [name]
    inside = caught.value.with_traceback(caught.tb.tb_next)
    assert [frame.rpartition(" ")[2] for frame in Failure.of(inside).frames] == ["storable"]


def test_what_was_stored_before_there_were_lines_of_code_is_still_shown() -> None:
    failure = Failure.decode(b'{"type":"OSError","text":"gone","frames":["a b.py:7 in walk","(odd)"],"more_frames":2}')
    assert failure.traceback.splitlines() == [
        "Traceback (most recent call last):",
        "  [2 more frames]",
        '  File "a b.py", line 7, in walk',
        "  (odd)",
        "OSError: gone",
    ]


def test_only_a_task_that_failed_has_a_traceback() -> None:
    failure = Failure("E", "x")
    told = [TaskError(1, "load", None, status, (), failure).traceback for status in (Status.FAILED, Status.CANCELLED)]
    assert told == ["E: x\n", ""]
    assert Failure("").traceback == ""


def test_a_record_nested_without_end_becomes_its_text() -> None:
    deep = b'{"type":"E","cause":' * 20_000 + b"null" + b"}" * 20_000
    assert Failure.decode(deep).text.startswith('{"type":"E"')
