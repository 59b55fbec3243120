"""The context of a run as one attempt sees it: what it has set itself, else what is stored.

Values are set together with the task's end, so an attempt that fails has set nothing, and nobody else sees a value
before that. A value that was looked at stays what it is while the attempt lasts; a name that was not there is looked
for again. To look is to ask the store, once per name, on the event loop too. Values are kept as JSON: what comes back
is plain, unless `of` says as what to read it.

Does not decide which of two tasks was first: the store does, when it commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, overload

from ramify.errors import BadPayload, OutsideTask, OverwriteError
from ramify.model.codec.refusal import cause_of, explain, in_words
from ramify.model.codec.wire import Wire
from ramify.model.context import A_NAME, ContextValue, SetValue
from ramify.model.task import check_name

T = TypeVar("T")
D = TypeVar("D")
#: How the stored value of a run's name is read.
Read = Callable[[int, str], ContextValue | None]

_ANYTHING = Wire(Any)
#: Types whose values are plain all the way down, or say what in them is not.
_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
_ABSENT: Any = object()


class Context:
    """The shared values of a run, as one attempt sees them."""

    __slots__ = ("_known", "_read", "_run", "_sets", "_task")

    def __init__(self, run: int, task: int, read: Read) -> None:
        self._run, self._task = run, task
        self._read: Read | None = read
        self._known: dict[str, ContextValue] = {}
        self._sets: dict[str, SetValue] = {}

    @overload
    def get(self, name: str, default: Any = None) -> Any: ...
    @overload
    def get(self, name: str, default: None = None, *, of: type[T]) -> T | None: ...
    @overload
    def get(self, name: str, default: D, *, of: type[T]) -> T | D: ...
    def get(self, name: str, default: Any = None, *, of: Any = Any) -> Any:
        """Return the value of a name, or `default`. `of` is the type to decode it as, such as a dataclass."""
        found = self._find(name)
        if found is None:
            return default
        try:
            return (_ANYTHING if of is Any else Wire(of)).read(found.value)
        except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
            text = f"{name!r} in the context of run {self._run} does not fit {of}: {in_words(error)}"
            raise BadPayload(text) from cause_of(error)

    def __getitem__(self, name: str) -> Any:
        """The value under a name; KeyError when there is none."""
        found = self.get(name, _ABSENT)
        if found is _ABSENT:
            raise KeyError(name)
        return found

    def __contains__(self, name: str) -> bool:
        """Return whether there is a value under a name."""
        return self._find(name) is not None

    def set(self, name: str, value: object, *, overwrite: bool = False, of: Any = None) -> None:
        """Set a value together with the end of this task: once per name, or with `overwrite=True` again.

        `of` is the type to encode it as, where the value alone does not tell: `set("points", points, of=list[Point])`.

        OverwriteError if the name is known to have a value. If another running task sets it too, the first one to end
        decides; the other one ends as usual, with an event that says so.
        """
        found = None if overwrite else self._find(name)
        if found is not None and (name in self._sets or found.task != self._task):
            by = "by this very attempt" if name in self._sets else f"by task {found.task}"
            raise OverwriteError(
                f"{name!r} is set in the context of run {self._run} already, {by}, and a name is set once; "
                f"take another name, or say that you mean it: set({name!r}, ..., overwrite=True)"
            )
        self._reader(name)
        self._sets[name] = SetValue(self._task, name, sealed(name, value, of), overwrite)

    def _find(self, name: str) -> SetValue | ContextValue | None:
        read = self._reader(name)
        found = self._sets.get(name) or self._known.get(name)
        if found is None and (stored := read(self._run, name)) is not None:
            found = self._known[name] = stored
        return found

    def _reader(self, name: str) -> Read:
        """How to look a name up; refuses what is no name, and whoever comes when the attempt is over."""
        check_name(A_NAME, name)
        if self._read is None:
            raise OutsideTask(f"the attempt of task {self._task} is over. Read current().context in each attempt.")
        return self._read

    # for the kernel only

    def _close(self) -> Collection[SetValue]:
        """Nothing can be set any more; what was."""
        self._read = None
        return self._sets.values()


def sealed(name: str, value: object, of: Any = None, where: str = "context") -> bytes:
    """The bytes of a value under a name; BadPayload says `where` for what would not come back equal."""
    annotation = of if of is not None else Any if type(value) in _PLAIN else type(value)
    try:
        return (_ANYTHING if annotation is Any else Wire(annotation)).seal(value)
    except Exception as error:  # noqa: BLE001 - the user's own types may raise anything, and are told what is wrong
        raise BadPayload(f"{where}: {explain([(name, annotation, value)], error)}") from None
