"""The seam between the verbs and the tables of a backend: what a verb asks, what it is told, and what it changes.

A verb asks once (`Ask`), decides on what was loaded (`Loaded`), and gives back changes (`Changes`) that the backend
writes in one go: a trip each on a server. Questions that only what was loaded can raise are methods of `Tables`, and
come before anything is written. So nothing is loaded after something was decided about it.

Two things save trips. The answer to a verb may need rows as they are after it: those questions are named with the
changes (`AskAfter`), so that they travel along. And who added to a run a moment ago knows what it would load: it writes
at once, on facts that the write checks (`Believed`).

A backend makes no decision: it finds rows and writes rows. What it loads stays as it is until the transaction ends,
ids and keys included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ramify.model.arrivals import Standing
from ramify.model.claim import Claim, Rooms, Want
from ramify.model.context import ContextValue
from ramify.model.event import Status
from ramify.model.key import Hold
from ramify.model.limit import NO_LIMITS, Limits, Place
from ramify.model.mark import Mark
from ramify.model.moving import RunStanding
from ramify.model.process import Stamp
from ramify.model.run import NewRun, StoredRun
from ramify.model.segment import SegmentState
from ramify.model.value import Key, StoredValue
from ramify.store.changes import AskAfter, Believed, Changes
from ramify.store.rows import SegmentRow, SpanRow

#: A run, and a round of it.
At = tuple[int, int]
#: A small join, the slots at which members arrive, those that had arrived, and its size. All members are done.
SmallJoin = tuple[int, int, int, int]


@dataclass(slots=True)
class Ask:
    """The questions of a verb before it decides. An empty one is not asked.

    `ended` are the tasks that end, by token; with `alike` all of them are done and nobody else arrives. `staged` are
    ranges by token and first id, `names` those in the context of a token's run, `new` ranges of ids that must be free,
    and `awaited` runs that may have ended. `grows`: tasks come into the `runs`, which may be bounded. `opens` are runs
    that may begin: the newest of each name is asked, and whether the ids are free. `values` will be swapped. `leaving`
    is a process whose session ends: all that it holds is asked. `turn` is the run that was served first last time:
    those behind it are next. Who only `looks` writes nothing, and may ask the candidates what is `left`.
    """

    now: int
    stamp: Stamp | None = None
    tokens: Sequence[bytes] = ()
    ended: Sequence[Sequence[int]] = ()
    alike: bool = False
    staged: Sequence[tuple[bytes, int]] = ()
    names: Sequence[tuple[bytes, str]] = ()
    new: Sequence[tuple[int, int]] = ()
    awaited: Collection[int] = ()
    runs: Collection[int] = ()
    grows: bool = False
    opens: Sequence[NewRun] = ()
    start: NewRun | None = None
    want: Want | None = None
    turn: int = 0
    looks: bool = False
    values: Collection[Key] = ()
    leaving: int | None = None


class Session(NamedTuple):
    """The last verb of a process, and what it was answered. Only one that `works` takes tasks."""

    last: int
    answer: bytes | None
    works: bool


class Left(NamedTuple):
    """How many tasks a want could take now, as far as a look at a few rows tells; the seconds until more are due."""

    ready: int = 0
    next_due: float | None = None


class Reported(NamedTuple):
    """The answer to an `AskAfter`: `claims` are those still held, `time_left` the seconds until the deadlines of open
    runs of theirs.
    """

    claims: Sequence[Claim] = ()
    time_left: tuple[tuple[int, float], ...] = ()
    left: Left = Left()
    marks: tuple[Mark, ...] = ()


class Candidates(Protocol):
    """The rows that a want covers, read as far as they are looked at. `rooms` tells which runs have room for more."""

    held: int  #: how many rows the process holds
    apart: int  #: how many of them run apart

    @property
    def is_bounded(self) -> bool:
        """True if any run is bounded in how many of its tasks may be claimed."""

    def room(self, run: int) -> int | None:
        """How many more tasks of a run may be claimed by anybody; None for no bound."""

    def suspects(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """The rows that must run apart, in their order."""

    def ready(self, rooms: Rooms) -> Iterator[SegmentRow]:
        """All others that may be taken now, in their order."""

    def next_run(self, after: int, rooms: Rooms) -> int | None:
        """The run after this one that has work, wanted or not."""

    def best_of(self, run: int, rooms: Rooms) -> SegmentRow | None:
        """The first of its rows that may be taken now."""

    def left(self) -> Left:
        """Return how much can be taken, and when more is due, to a process that only looks."""


@dataclass(slots=True)
class Loaded:
    """The answer to an `Ask`: rows by their token, id or first id.

    `held` are the rows that the process holds under these tokens. `keys` are those of tasks that end and whose key is
    released then; `numbers` the highest number of an event of tasks that were tried before; `waiters` the task, join
    and slot of who waits for an end, or `slots` the same, added up by the run and round that fire. `counted` is how
    many tasks those runs have that are bounded.
    """

    session: Session | None = None
    held: Mapping[bytes, SegmentRow] = field(default_factory=dict)
    spans: Mapping[int, SpanRow] = field(default_factory=dict)
    runs: Mapping[int, StoredRun] = field(default_factory=dict)
    marked: Collection[int] = ()
    keys: Mapping[int, bytes] = field(default_factory=dict)
    numbers: Mapping[int, int] = field(default_factory=dict)
    waiters: Sequence[tuple[int, int, int]] = ()
    slots: Mapping[At, Sequence[SmallJoin]] | None = None
    staged: Mapping[tuple[bytes, int], SegmentRow] = field(default_factory=dict)
    context: Mapping[tuple[int, str], ContextValue] = field(default_factory=dict)
    values: Mapping[Key, StoredValue] = field(default_factory=dict)
    counted: Mapping[int, int] = field(default_factory=dict)
    over: Collection[int] = ()  #: those of the awaited runs that have ended
    reserved: int = 0  #: the first id that was never reserved
    taken: Collection[tuple[int, int]] = ()  #: those of the new ranges of which ids are in the log
    known: StoredRun | None = None  #: the run that has the id, or the name and generation, of the one to be started
    newest: Mapping[str, StoredRun] = field(default_factory=dict)  #: the newest runs of the names that may open
    limits: Limits = NO_LIMITS  #: those of the store, for verbs that claim or end claims
    candidates: Candidates | None = None


class SpanPiece(NamedTuple):
    """Neighbouring tasks of a span, and how many of them ended in which way."""

    span: SpanRow
    first: int
    last: int
    ends: Mapping[Status, int]


class Tables(Protocol):
    """The tables of a backend inside a transaction."""

    def load(self, ask: Ask) -> Loaded:
        """Answer a verb."""

    def write(self, changes: Changes) -> int:
        """Write what it decided; its place in the log, 0 when it has none."""

    def write_if(self, changes: Changes, believed: Believed) -> bool:
        """Write what was decided on facts that were loaded earlier, if they still hold; False: nothing was written."""

    def report(self, asked: AskAfter, now: int) -> Reported:
        """Answer what goes back with a verb. A backend may have asked it together with the write."""

    # what only the answer can raise

    def runs(self, runs: Collection[int], *, decides: bool = False) -> Mapping[int, StoredRun]:
        """The runs with these ids that there are. Who `decides` about them is alone with them until the end."""

    def needs(self, joins: Collection[int]) -> Mapping[int, int]:
        """How many slots those of these joins have that exist."""

    def joins(self, wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        """Joins by id, with the parts that are named; those that do not exist are left out. The rows of those that fire
        are asked next (`covering`): a server brings them along.
        """

    def waiters(self, tasks: Sequence[int]) -> Sequence[tuple[int, int, int]]:
        """The slots that the ends of these tasks fill for those who wait: the task, the join and the slot of each."""

    def last_behind(self, tasks: Collection[int]) -> Mapping[int, int]:
        """By task, the last one behind it, if that is there. Nobody else can come behind them until the end."""

    def runs_of_joins(self, joins: Collection[int]) -> Mapping[int, int]:
        """The runs of those joins that exist."""

    def missing(self, tasks: Collection[int]) -> Collection[int]:
        """The tasks of these that are not in the log, published and not forgotten."""

    def heirs(self, slots: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int, int]]:
        """The heirs of tasks, each of which comes with a join and the slot that its end fills: tasks that were named
        after it to arrive there in its stead, each behind the task and before the join and the slot.
        """

    def endings(self, tasks: Collection[int]) -> Mapping[int, Status]:
        """How those of these tasks ended that did."""

    def holders(self, hold: Hold, digests: Sequence[bytes], at: int) -> dict[bytes, int]:
        """The tasks that hold these digests at that time; nobody else takes them before the transaction ends."""

    def covering(self, tasks: Sequence[int]) -> Sequence[SegmentRow]:
        """The live rows in which these tasks are set, each once, by their first."""

    def take_staged(self, span: SpanRow, now: int) -> Mapping[int, int]:
        """Give staged tasks their keys, at once and by themselves: there may be a million. Those that lost theirs, with
        the task that holds it.
        """

    def keys_of(self, tasks: Sequence[int]) -> Mapping[int, bytes]:
        """The keys of those of these tasks that have one."""

    def numbers(self, tasks: Sequence[int]) -> Mapping[int, int]:
        """The highest number of an event of each of these tasks that has any."""

    def spans(self, firsts: Collection[int]) -> Mapping[int, SpanRow]:
        """The spans that begin at these ids."""

    def spans_of(self, tasks: Collection[int]) -> Mapping[int, SpanRow]:
        """The spans that hold these tasks, published or not, by task."""

    def keys_at(self, first: int, last: int) -> Mapping[int, bytes | None]:
        """The keys of the tasks that there are in a range."""

    def lanes_of(self, first: int, last: int) -> Mapping[int, str]:
        """The lane of each task of a range of several lanes."""

    def span_before(self, first: int) -> SpanRow | None:
        """The span that ends right before this id."""

    def staged_under(self, token: bytes, first: int) -> Sequence[SegmentRow]:
        """The staged row of a claim that begins there, if there is one."""

    def tails_of(self, span: SpanRow) -> Sequence[SegmentRow]:
        """The live rows in which its last task may be set."""

    def parents_at(self, tasks: Sequence[int]) -> Mapping[int, int | None]:
        """The parents of tasks that are there."""

    # runs that go on

    def standings(self, runs: Collection[int]) -> Sequence[RunStanding]:
        """Where these runs stand, each with all of its live work that matters."""

    def may_move(self, now: int) -> Sequence[RunStanding]:
        """Where the open runs stand that may be able to move: all but those that certainly are not."""

    def counts(self, runs: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """The counters of runs: how many tasks came to what."""

    def counted(self, runs: Collection[int]) -> Mapping[int, int]:
        """How many tasks those of these runs have that are bounded."""

    def rows_of(self, run: int, states: Collection[SegmentState], limit: int = -1) -> Sequence[SegmentRow]:
        """The live rows of a run in these states, by id."""

    def works(self, run: int) -> bool:
        """Return whether a run has rows that can be worked off."""

    def awaited(self, run: int) -> Sequence[int]:
        """The tasks that joins of a run wait for which have not fired."""

    # limits

    def limits(self) -> Limits:
        """All limits of the store."""

    def running(self, places: Collection[Place]) -> Mapping[str, int]:
        """How many tasks are claimed that take these places, by their lines."""

    def have_openings(self) -> bool:
        """Return whether time decides about any place."""

    def values(self, keys: Collection[Key]) -> Mapping[Key, StoredValue]:
        """Return those of these values that there are."""

    def heads(self, lines: Collection[str]) -> Sequence[SegmentRow]:
        """The first limited row of each kind and queue of these lines that has no ready one."""

    def has_head(self, line: str, kind: str, queue: str) -> bool:
        """Return whether a row of that kind and queue is ready as the head of a line."""

    def in_line(self, line: str, kind: str, queue: str, runs: Collection[int] | None = None) -> Iterator[SegmentRow]:
        """The limited rows of a kind and queue in a line, of some runs or of all, in their order; nothing is written
        while they are read.
        """

    def heads_of(self, want: Want, runs: Collection[int] | None, now: int) -> Sequence[SegmentRow]:
        """The rows of wanted kinds and queues that are ready as heads of lines and due, in their order; those in front
        of limited rows of some runs, or all.
        """

    def runs_in_line(self) -> Sequence[int]:
        """The runs that have limited rows."""

    def lines_headed_by(self, run: int) -> Collection[str]:
        """The lines of which a row of a run is a head."""

    # editions, which may be a million tasks

    def made_by(self, run: int, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The tasks that those of a run in these ranges have made and that were not replaced, as ranges."""

    def rows_over(self, ranges: Sequence[tuple[int, int]]) -> Sequence[SegmentRow]:
        """The live rows that nobody holds and that reach into these ranges."""

    def pieces(self, ranges: Sequence[tuple[int, int]]) -> Sequence[SpanPiece]:
        """These ranges, cut where one span follows another."""

    def unfired(self, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The joins, each with a slot, that have not fired and for which tasks of these ranges are waited for."""

    # people

    def life(self, task: int) -> int:
        """Which life of a task this is."""

    def marks_of(self, run: int) -> Sequence[Mark]:
        """The marks on a run and its tasks."""

    def owner(self, first: int, last: int) -> int | None:
        """The run of the tasks that lie in a range of ids, if any do."""
