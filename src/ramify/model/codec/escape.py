"""The escaped form: JSON for values whose strings hold lone surrogates, which UTF-8 cannot.

File names that are not UTF-8 reach Python as such strings. The whole value is written as `{"~": value}`, and every
surrogate and every `~` in its strings, keys included, as `~` and four hex digits, so each string has one spelling and
each spelling one string. A key that was a path begins with `~k`, for the sake of `Key`. A result that is not there yet
(`model/reference.py`) is `~r` and its slot, a stream of them `~r` with its first slot, `+` and how many, if that is
known.

Promises: `unescaped(escaped(tree))` is the same tree. Bytes that begin with `MARK` are in this form: a value that would
begin with it in plain JSON is written in this form instead.

Does not know types: it works on trees of lists, dicts and strings.
"""

import re
import secrets
from typing import Self

import msgspec

from ramify.errors import BadPayload

#: How the escaped form begins.
MARK = b'{"~":'
#: Begins the text of a path in a tree that is to be escaped. No other text begins so: it is made up at random in each
#: process, and never written.
PATH = f"\ud800{secrets.token_hex(16)}"
#: The same for results that are not there yet.
RESULT = f"\ud800{secrets.token_hex(16)}"

_KEY = "~k"
_SLOT = "~r"
#: No string of a value begins so, because its own `~` would be spelled out.
_A_SLOT = b'"~r'
_SINGLE_SLOT = re.compile(b'"~r([0-9]+)"')
_UNSAFE = re.compile("[~\ud800-\udfff]")
_SPELLED = re.compile("~([0-9a-f]{4})")
_encode = msgspec.json.Encoder().encode


class Key(str):
    """A key that was a path, and is to be made one again.

    `msgspec.convert` asks nobody about a plain string among keys of a type it does not know (its issue 775).
    """


class Slot(str):
    """Where a result goes: its slot, or of a stream the `first` one and how many (None: up to the last).

    As text it is for people who look at a stored call.
    """

    first: int
    size: int | None

    @classmethod
    def read(cls, text: str) -> Self:
        """From the text that stands for it in a stored call."""
        first, plus, size = text.partition("+")
        slot = cls(f"<results from {first}>" if plus else f"<result {first}>")
        slot.first, slot.size = int(first), (int(size) if size else None) if plus else 1
        return slot


def slot_text(first: int, size: int | None, stream: bool) -> str:
    """The text that stands for a result, or for those of a stream, in a tree that is to be escaped."""
    return f"{RESULT}{first}" + (f"+{'' if size is None else size}" if stream else "")


def has_slots(raw: bytes) -> bool:
    """Whether results go into these bytes before they are a value."""
    return raw.startswith(MARK) and _A_SLOT in raw


def single_slots(raw: bytes) -> list[int]:
    """The slots of results, not of streams, that go into these bytes."""
    return sorted({int(slot) for slot in _SINGLE_SLOT.findall(raw)})


def escaped(tree: object) -> bytes:
    """The bytes of a tree."""
    return _encode({"~": _escape(tree)})


def unescaped(raw: bytes) -> object:
    """The tree in such bytes."""
    return _unescape(msgspec.json.decode(raw, type=dict[str, object])["~"])


def _escape(node: object) -> object:
    if isinstance(node, str):
        return _SLOT + node.removeprefix(RESULT) if node.startswith(RESULT) else _spelled(node.removeprefix(PATH))
    if isinstance(node, list | tuple):
        return [_escape(part) for part in node]
    if isinstance(node, dict):
        return {_escape_key(key): _escape(part) for key, part in node.items()}
    return node


def _escape_key(key: str) -> str:
    if key.startswith(RESULT):
        raise BadPayload("a reference is a key of a dict, and its result is not known yet; use it as a value")
    return _KEY + _spelled(key.removeprefix(PATH)) if key.startswith(PATH) else _spelled(key)


def _unescape(node: object) -> object:
    if isinstance(node, str):
        return Slot.read(node.removeprefix(_SLOT)) if node.startswith(_SLOT) else _plain(node)
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
