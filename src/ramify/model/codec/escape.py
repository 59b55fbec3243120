"""The escaped form: JSON for values whose strings hold lone surrogates, which UTF-8 cannot.

File names that are not UTF-8 reach Python as such strings. The whole value is written as `{"~": value}`, and every
surrogate and every `~` in its strings, keys included, as `~` and four hex digits, so each string has one spelling and
each spelling one string. A key that was a path begins with `~k`, for the sake of `Key`. A result that is not there yet
(`model/reference.py`) is `~r` and its slot, a stream of them `~r` with its first slot, `+` and how many, one that the
result in a slot names `~r`, that slot and `*`. A blank is `~b` and its place.

Promises: `unescaped(escaped(tree))` is the same tree. Bytes that begin with `MARK` are in this form: a value that would
begin with it in plain JSON is written in this form instead.

Does not know types: it works on trees of lists, dicts and strings.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Self

import msgspec

from ramify.errors import BadPayload
from ramify.model.decoder import decoder

#: How the escaped form begins.
MARK = b'{"~":'
#: Begins the text of a path in a tree that is to be escaped. No other text begins so: it is made up at random in each
#: process, and never written.
PATH = f"\ud800{secrets.token_hex(16)}"
#: The same for results that are not there yet, and for blanks.
RESULT = f"\ud800{secrets.token_hex(16)}"
BLANK = f"\ud800{secrets.token_hex(16)}"

_KEY = "~k"
_SLOT = "~r"
_BLANK = "~b"
#: No string of a value begins so, because its own `~` would be spelled out.
_A_SLOT = re.compile(b'"~[rb]')
_SINGLE_SLOT = re.compile(b'"~r([0-9]+)\\*?"')
_TO_FILL = re.compile(b'"~([rb])([0-9]+)"')
#: How a call by position begins that takes results.
_BY_POSITION = MARK + b"["
_UNSAFE = re.compile("[~\ud800-\udfff]")
_SPELLED = re.compile("~([0-9a-f]{4})")
_encode = msgspec.json.Encoder().encode


class Key(str):
    """A key that was a path, and is to be made one again.

    `msgspec.convert` asks nobody about a plain string among keys of a type it does not know (its issue 775).
    """


class ResultSlot(str):
    """Where a result goes: its slot, or of a stream the `first` one and how many. As text it is for people.

    Of a `gathered` stream, the slot of the result that says which results are meant.
    """

    first: int
    size: int
    gathered: bool

    @classmethod
    def read(cls, text: str) -> Self:
        """From the text that stands for it in a stored call."""
        is_gathered = text.endswith("*")
        first, plus, size = text.removesuffix("*").partition("+")
        slot = cls(f"<results from {first}>" if plus or is_gathered else f"<result {first}>")
        slot.first, slot.size, slot.gathered = int(first), int(size) if plus else 1, is_gathered
        return slot


def slot_text(first: int, size: int = 1, *, stream: bool = False, gathered: bool = False) -> str:
    """The text that stands for a result, or for those of a stream, in a tree that is to be escaped."""
    return f"{RESULT}{first}" + ("*" if gathered else f"+{size}" if stream else "")


@lru_cache(maxsize=64)
def written_slot(slot: int) -> str:
    """The same as it is written, for a tree that needs no other escapes (`as_escaped`)."""
    return f"{_SLOT}{slot}"


def as_escaped(plain: bytes, slots: int) -> bytes | None:
    """Plain JSON as the escaped form, if nothing in it but this many slots has to be written otherwise."""
    return b"%b%b}" % (MARK, plain) if plain.count(b"~") == slots else None


def blank_text(place: int) -> str:
    """The text that stands for a blank in a tree that is to be escaped."""
    return f"{BLANK}{place}"


def has_slots(raw: bytes) -> bool:
    """Return whether results, or values for blanks, go into these bytes before they are a value."""
    return raw.startswith(MARK) and _A_SLOT.search(raw) is not None


def single_slots(raw: bytes) -> list[int]:
    """The slots of results that go into these bytes, or say which stream does."""
    return sorted({int(slot) for slot in _SINGLE_SLOT.findall(raw)})


def filled(raw: bytes, blanks: Mapping[int, bytes], results: Mapping[int, bytes] = MappingProxyType({})) -> bytes:
    """The bytes with these values, as they are stored, in the places of blanks and results; others stay."""

    def part(found: re.Match[bytes]) -> bytes:
        values = blanks if found[1] == b"b" else results
        value = values.get(int(found[2]))
        return found[0] if value is None else _escaped_tree(value)

    if not raw.startswith(MARK):
        return raw
    whole = _TO_FILL.sub(part, raw)
    # What needs no escapes any more is plain again: each value has one form.
    return whole if b"~" in whole[len(MARK) :] else whole[len(MARK) : -1]


def plainly_filled(raw: bytes, results: Sequence[bytes | None]) -> bytes | None:
    """A call by position with its results, by slot, in plain JSON; None where something in it has to be escaped."""
    if not raw.startswith(_BY_POSITION):
        return None
    whole = raw[len(MARK) : -1]
    for slot, value in enumerate(results):
        if value is None:
            value = b"null"
        elif b"~" in value:  # it could look like a slot, or is escaped itself
            return None
        whole = whole.replace(b'"~r%d"' % slot, value)
    return None if b"~" in whole else whole


def _escaped_tree(raw: bytes) -> bytes:
    """The tree of a stored value as it is written inside the escaped form."""
    if raw.startswith(MARK):
        return raw[len(MARK) : -1]
    return raw if b"~" not in raw else _encode(_escape(msgspec.json.decode(raw)))


def escaped(tree: object) -> bytes:
    """The bytes of a tree."""
    return _encode({"~": _escape(tree)})


_boxed = decoder(dict[str, object])


def unescaped(raw: bytes) -> object:
    """The tree in such bytes."""
    return _unescape(_boxed.decode(raw)["~"])


def _escape(node: object) -> object:
    if isinstance(node, str):
        for prefix, written in ((RESULT, _SLOT), (BLANK, _BLANK)):
            if node.startswith(prefix):
                return written + node.removeprefix(prefix)
        return _spelled(node.removeprefix(PATH))
    if isinstance(node, list | tuple):
        return [_escape(part) for part in node]
    if isinstance(node, dict):
        return {_escape_key(key): _escape(part) for key, part in node.items()}
    return node


def _escape_key(key: str) -> str:
    if key.startswith((RESULT, BLANK)):
        raise BadPayload("a reference is a key of a dict, and its result is not known yet. Use it as a value")
    return _KEY + _spelled(key.removeprefix(PATH)) if key.startswith(PATH) else _spelled(key)


def _unescape(node: object) -> object:
    if isinstance(node, str):
        if node.startswith(_BLANK):
            return f"<blank {node.removeprefix(_BLANK)}>"
        return ResultSlot.read(node.removeprefix(_SLOT)) if node.startswith(_SLOT) else _plain(node)
    if isinstance(node, list):
        return [_unescape(part) for part in node]
    if isinstance(node, dict):
        return {_unescape_key(key): _unescape(part) for key, part in node.items()}
    return node


def _unescape_key(key: str) -> str:
    return Key(_plain(key.removeprefix(_KEY))) if key.startswith(_KEY) else _plain(key)


def _spelled(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"~{ord(found[0]):04x}", text)


def _plain(text: str) -> str:
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text)
