"""Tasks on their way into the log, as columns.

Tasks that share run, round, kind, queue, priority and due time are added together: one `NewTasks`, one range of
contiguous ids (reserved by the caller), one segment. Everything that differs between them is a column; a column that
nobody uses is None and costs nothing.

The values here are checked once, at the seam to a store, so that every store refuses the same things.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ramify.errors import BadPayload, ConfigError
from ramify.model.key import Hold
from ramify.model.policy import LEVELS, PARKED

MAX_PAYLOAD = 1_048_576
MAX_NAME = 255
MAX_KEY = 8_192
MAX_ID = 2**62
#: How the kinds of tasks begin that shapes bring along.
OWN = "ramify."
#: The longest time a key is kept after success: a hundred years and a bit, so that adding it to a time of day fits.
MAX_KEEP = 2**52


class NewTasks(msgspec.Struct, frozen=True, gc=False):
    """Columns of tasks to append, stage or commit as children.

    `bodies` are encoded arguments. `parents` is one parent for all or one each. `details` are encoded extras (headers,
    per-call retries and timeout) for the few tasks that have them. `keys` are under one `hold`, for `keep`
    microseconds beyond success; with `again`, a key is taken over from a task that has ended. `lanes` is one lane each,
    in place of one `lane` for all. With a `join`, task i is its member in slot `slot + i`.
    `waits=True` publishes the tasks under their joins instead of offering them; their `due` is then no moment but how
    many microseconds after its join fired a task may start. `awaited` says that waiters name them.

    Children go to the round after their parent's segment, tasks from outside to the run's next. Where a key is taken
    and no join knows the tasks by their place, the kept ones close ranks: the ids that count are those of the answer.
    """

    first: int
    kind: str
    bodies: Sequence[bytes]
    parents: Sequence[int | None] | int | None = None
    queue: str = "default"
    lane: str | None = None
    priority: int = 0
    due: int | None = None
    keys: Sequence[bytes | None] | None = None
    hold: Hold = Hold.LABEL
    keep: int = 0
    again: bool = False
    details: Sequence[bytes | None] | None = None
    lanes: Sequence[str] | None = None
    join: int | None = None
    slot: int = 0
    waits: bool = False
    awaited: bool = False

    @property
    def last(self) -> int:
        """The last id of the range."""
        return self.first + len(self.bodies) - 1

    @property
    def ids(self) -> range:
        """The ids of the range."""
        return range(self.first, self.first + len(self.bodies))

    def parent_column(self) -> Sequence[int | None]:
        """One parent each, whichever way they were given."""
        if self.parents is None or isinstance(self.parents, int):
            return [self.parents] * len(self.bodies)
        return self.parents


class Appended(msgspec.Struct, frozen=True):
    """The result of an append: `ids[g][i]` is the id that task i of group g has, or that holds its key.

    `taken` are the positions `(g, i)` that were dropped in favour of an existing task. `already` when the whole call
    had been applied before; the id of a dropped task is then 0 if nobody holds its key any more. `run` is the run that
    they went into.
    """

    ids: tuple[tuple[int, ...], ...] = ()
    taken: frozenset[tuple[int, int]] = frozenset()
    already: bool = False
    run: int = 0


class Row(msgspec.Struct, frozen=True):
    """One task of the log with what its group shares; for people and checks, never for the kernel's hot path."""

    id: int
    run: int
    round: int
    kind: str
    queue: str
    lane: str | None
    priority: int
    due: int | None
    parent: int | None
    body: bytes
    key: bytes | None = None
    more: bytes | None = None
    added: int = 0  #: when it was published, by the store's clock


def is_own(kind: str) -> bool:
    """Return whether tasks of this kind are a shape's own, and no user wrote them."""
    return kind.startswith(OWN)


def check_name(what: str, name: object) -> str:
    """A kind, queue, lane or run name that every store can keep; BadPayload says what is wrong otherwise."""
    if not isinstance(name, str):
        raise BadPayload(f"{what} must be text, not {type(name).__name__}. Give it a name.")
    if not name:
        raise BadPayload(f"{what} is empty. Give it a name.")
    if len(name) > MAX_NAME:
        raise BadPayload(f"{what} has {len(name)} characters; at most {MAX_NAME} are allowed. Shorten it.")
    if "\0" in name or (not name.isascii() and any("\ud800" <= c <= "\udfff" for c in name)):
        raise BadPayload(f"{what} {name!a} holds a NUL or a lone surrogate. Use plain text (a key or an argument may).")
    return name


def name_given(what: str, name: object) -> str:
    """The same for a name in somebody's program; ConfigError says what is wrong."""
    try:
        return check_name(what, name)
    except BadPayload as error:
        raise ConfigError(str(error)) from None


def check_apart(groups: Sequence[NewTasks]) -> None:
    """Refuse groups of one call that claim the same ids."""
    if len(groups) == 1:
        return
    ranges = sorted((tasks.first, tasks.last) for tasks in groups)
    for (_, last), (first, _) in pairwise(ranges):
        if first <= last:
            raise BadPayload(f"id {first} is in two groups of one call; reserve a range for each")


def check_tasks(tasks: NewTasks) -> NewTasks:
    """Refuse columns that do not fit together before anything is written."""
    count = len(tasks.bodies)
    check_name("kind", tasks.kind)
    check_name("queue", tasks.queue)
    if tasks.lane is not None:
        check_name("lane", tasks.lane)
    if tasks.lanes is not None:
        _check_lanes(tasks.lanes)
    if tasks.lane is not None and tasks.lanes is not None:
        raise BadPayload(f"new {tasks.kind!r} tasks have one lane for all and one each; give one of the two")
    if not count:
        raise BadPayload(f"a group of new {tasks.kind!r} tasks is empty; leave it out instead")
    if not 0 < tasks.first <= MAX_ID - count:
        raise BadPayload(f"first id {tasks.first} of new {tasks.kind!r} tasks was not reserved")
    if tasks.priority not in LEVELS:
        raise BadPayload(f"priority {tasks.priority}: levels run from {LEVELS[0]} to {LEVELS[-1]}, lower first")
    for name in ("parents", "keys", "details", "lanes"):
        column = getattr(tasks, name)
        if column is not None and not isinstance(column, int) and len(column) != count:
            raise BadPayload(f"column {name} has {len(column)} values for {count} {tasks.kind!r} tasks")
    if (longest := max(map(len, tasks.bodies))) > MAX_PAYLOAD:
        raise BadPayload(
            f"arguments of a {tasks.kind!r} task take {longest} bytes; the limit is {MAX_PAYLOAD}. "
            "Store the value elsewhere and pass a reference"
        )
    if tasks.keys is not None and max(map(len, filter(None, tasks.keys)), default=0) > MAX_KEY:
        raise BadPayload(f"a key of a {tasks.kind!r} task is over {MAX_KEY} bytes; use a hash of it as the key")
    if not 0 <= tasks.keep <= MAX_KEEP:
        raise BadPayload(f"keep={tasks.keep} of new {tasks.kind!r} tasks: give 0 to {MAX_KEEP} microseconds")
    if tasks.waits and tasks.due is not None and not 0 <= tasks.due <= PARKED:
        raise BadPayload(f"{tasks.kind!r} tasks wait for a join and then {tasks.due} microseconds; give 0 or more")
    return tasks


def _check_lanes(lanes: Sequence[str]) -> None:
    """Refuse lanes that no store can keep. There may be thousands, so they are looked at together first."""
    try:
        text = "".join(lanes)
    except TypeError:
        text = "\0"
    if not all(lanes) or not text.isascii() or "\0" in text or max(map(len, lanes)) > MAX_NAME:
        for lane in set(lanes):
            check_name("lane", lane)


def check_staged(groups: Sequence[NewTasks]) -> None:
    """The same for groups that are staged, which nobody may wait for yet."""
    for tasks in groups:
        check_tasks(tasks)
        if tasks.waits:
            raise BadPayload("staged tasks cannot wait for a join; commit them as children")


def check_count(count: int) -> None:
    """Refuse to reserve no ids."""
    if count < 1:
        raise BadPayload(f"reserve({count}): ask for at least one id")
