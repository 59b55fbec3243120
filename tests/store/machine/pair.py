"""Two stores side by side: every verb goes to the SQLite store and to the reference, and their answers must be equal.

Answers are compared whole, except for what is random: tokens. The tokens of a claim are paired by position the first
time they are seen; from then on the reference's token stands for both, also in what is sent.

It does not look into either store; what is visible of them is compared by `picture.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import note
from msgspec import structs

from ramify.errors import RamifyError
from ramify.model.claim import Claim, Claimed
from ramify.model.commit import Committed
from ramify.model.process import Stamp
from ramify.store.clock import Clock
from ramify.store.contract import Store, Vacuumed
from ramify.store.memory import MemoryStore, MemoryTables
from ramify.store.sqlite import SqliteStore
from ramify.testing.clock import FakeClock

Opener = Callable[[Path, Clock], Store]


def open_sqlite(path: Path, clock: Clock) -> Store:
    """A client that need not survive the loss of power: nobody pulls the plug here."""
    return SqliteStore(path, durability="process", clock=clock)


@dataclass(frozen=True)
class Refused:
    """A verb that raised instead of answering."""

    error: type[RamifyError]


@dataclass(frozen=True)
class Sent:
    """A verb as it was sent, in the reference's tokens, with both answers as they came."""

    verb: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    reference: Any
    sqlite: Any


@dataclass
class Tokens:
    """Which token of the SQLite store is which of the reference."""

    ours: dict[bytes, bytes] = field(default_factory=dict)
    theirs: dict[bytes, bytes] = field(default_factory=dict)

    def pair(self, reference: Sequence[Claim], sqlite: Sequence[Claim]) -> None:
        """Claims in the same position are the same claim."""
        for one, other in zip(reference, sqlite, strict=False):
            if one.token not in self.theirs and other.token not in self.ours:
                self.ours[other.token] = one.token
                self.theirs[one.token] = other.token

    def known(self, token: bytes) -> bytes:
        """The reference's name of a token that the SQLite store said."""
        return self.ours.get(token, token)

    def translate(self, verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments in the tokens of the SQLite store."""
        match verb:
            case "stage":
                stamp, token, *rest = args
                return (stamp, self.theirs.get(token, token), *rest)
            case "release":
                stamp, tokens = args
                return stamp, [self.theirs.get(token, token) for token in tokens]
            case "commit":
                stamp, parts, *rest = args
                named = [structs.replace(part, token=self.theirs.get(part.token, part.token)) for part in parts]
                return (stamp, named, *rest)
            case _:
                return args


def same_token(token: bytes) -> bytes:
    """How the reference's own answers are read."""
    return token


def plain(answer: Any, known: Callable[[bytes], bytes]) -> Any:
    """An answer in a form that compares by content: a range and a list of the same tasks are the same."""
    match answer:
        case Committed():
            refused = tuple(map(known, answer.refused))
            return answer.seq, refused, answer.lost, answer.marks, plain(answer.claimed, known)
        case Claimed():
            return answer.suspects, [plain_claim(claim, known) for claim in answer.claims]
        case (bytes(), *_):
            # What `release` found void.
            return tuple(map(known, answer))
        case Vacuumed():
            # The reference takes no room.
            return structs.replace(answer, space=0)
        case _:
            return answer


def plain_claim(claim: Claim, known: Callable[[bytes], bytes]) -> dict[str, Any]:
    """One claim in a form that compares by content."""
    lists = {name: list(getattr(claim, name)) for name in ("tasks", "bodies", "parents")}
    maps = {name: dict(getattr(claim, name)) for name in ("details", "history", "marks")}
    return structs.asdict(claim) | lists | maps | {"token": known(claim.token)}


def claimed_in(answer: Any) -> Claimed:
    """What the answer to a claim or a commit brought."""
    found = answer.claimed if isinstance(answer, Committed) else answer
    return found if isinstance(found, Claimed) else Claimed()


def claims_of(answer: Any) -> tuple[Claim, ...]:
    """The claims in the answer to a claim or a commit."""
    return claimed_in(answer).claims


class Client:
    """One client of each store."""

    def __init__(self, reference: Store, sqlite: Store, tokens: Tokens) -> None:
        self.reference, self.sqlite = reference, sqlite
        self._tokens = tokens

    def send(self, verb: str, *args: Any, **options: Any) -> Sent:
        """Send a verb to both; whatever they answer or raise must be the same."""
        note(f"{verb} {args} {options or ''}")
        sent = self.deliver(verb, args, options)
        self._tokens.pair(claims_of(sent.reference), claims_of(sent.sqlite))
        ours, theirs = self.plain(sent)
        assert ours == theirs, f"{verb}{args}{options}:\n  reference {ours}\n  sqlite    {theirs}"
        # A look at a few rows may miss what is left, but must not see what is not there.
        assert claimed_in(sent.reference).ready >= min(1, claimed_in(sent.sqlite).ready), (
            f"{verb}{args}{options}: {sent}"
        )
        self.compare_next_due(sent)
        return sent

    def compare_next_due(self, sent: Sent) -> None:
        """The next row that is due may be told of too early, never too late."""
        ours, theirs = claimed_in(sent.reference), claimed_in(sent.sqlite)
        if ours.next_due is not None and not theirs.ready:
            assert theirs.next_due is not None, f"{sent}: sqlite tells of no row that is due later"
            assert theirs.next_due <= ours.next_due, f"{sent}: sqlite tells of the next row too late"

    def deliver(self, verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Sent:
        """Send a verb to both and compare nothing."""
        reference = _try(self.reference, verb, args, options)
        sqlite = _try(self.sqlite, verb, self._tokens.translate(verb, args), options)
        return Sent(verb, args, options, reference, sqlite)

    def plain(self, sent: Sent) -> tuple[Any, Any]:
        """Both answers in a form that can be compared."""
        return plain(sent.reference, same_token), plain(sent.sqlite, self._tokens.known)

    def ask(self, verb: str, *args: Any, **options: Any) -> Any:
        """Send a verb to both; the answer of the reference, or `Refused`."""
        return self.send(verb, *args, **options).reference

    def close(self) -> None:
        """Close both; a process that has not left then looks dead to the SQLite store, and silent to the reference."""
        self.reference.close()
        self.sqlite.close()


def _try(store: Store, verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return getattr(store, verb)(*args, **options)
    except RamifyError as error:
        return Refused(type(error))


class Pair:
    """One place of each store, and the clock both obey."""

    def __init__(self, folder: Path, opener: Opener = open_sqlite) -> None:
        self.clock = FakeClock()
        self.tokens = Tokens()
        self._tables = MemoryTables()
        self._path = folder / "store.db"
        self._opener = opener

    def client(self) -> Client:
        """Open another client of each."""
        return Client(MemoryStore(self._tables, self.clock), self._opener(self._path, self.clock), self.tokens)


@dataclass
class Worker:
    """A process on a client of its own, what it sent, and what it holds as far as it knows."""

    client: Client
    process: int
    n: int = 0
    sent: list[Sent] = field(default_factory=list)
    #: claims it was given, by the reference's token, with the tasks it has not finished
    claims: dict[bytes, Claim] = field(default_factory=dict)
    left: dict[bytes, list[int]] = field(default_factory=dict)
    #: first ids of the ranges staged under a claim
    staged: dict[bytes, list[int]] = field(default_factory=dict)
    #: the joins that staged ranges will be members of, by the first id of the range
    gathering: dict[int, int] = field(default_factory=dict)

    def send(self, verb: str, *args: Any, lost: bool = False, **options: Any) -> Any:
        """Send a numbered verb. With `lost`, the first answer never arrives, and the same verb is sent again."""
        self.n += 1
        sent = self.client.send(verb, Stamp(self.process, self.n), *args, **options)
        if isinstance(sent.reference, Refused):
            self.n -= 1
            return sent.reference
        if not isinstance(sent.reference, Claimed) or sent.reference.claims:
            # A claim that found nothing uses no number up: delivered late, it would be a new one.
            self.sent.append(sent)
        if lost:
            again = self.client.send(verb, *sent.args, **options)
            first, second = self.client.plain(sent), self.client.plain(again)
            assert first == second, f"{verb}{sent.args}: answered {first}, sent again {second}"
        for claim in claims_of(sent.reference):
            self.claims[claim.token] = claim
            self.left[claim.token] = list(claim.tasks)
        return sent.reference
