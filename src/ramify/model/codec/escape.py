"""The escaped form: JSON for values whose strings hold lone surrogates, which UTF-8 cannot.

File names that are not UTF-8 reach Python as such strings. The whole value is written as `{"~": value}`, and every
surrogate and every `~` in its strings, keys included, as `~` and four hex digits, so each string has one spelling and
each spelling one string. A key that was a path begins with `~k`, for the sake of `Key`.

Promises: `unescaped(escaped(tree))` is the same tree. Bytes that begin with `MARK` are in this form: a value that would
begin with it in plain JSON is written in this form instead.

Does not know types: it works on trees of lists, dicts and strings.
"""

import re
import secrets

import msgspec

#: How the escaped form begins.
MARK = b'{"~":'
#: Begins the text of a path in a tree that is to be escaped. No other text begins so: it is made up at random in each
#: process, and never written.
PATH = f"\ud800{secrets.token_hex(16)}"

_KEY = "~k"
_UNSAFE = re.compile("[~\ud800-\udfff]")
_SPELLED = re.compile("~([0-9a-f]{4})")
_encode = msgspec.json.Encoder().encode


class Key(str):
    """A key that was a path, and is to be made one again.

    `msgspec.convert` asks nobody about a plain string among keys of a type it does not know (its issue 775).
    """


def escaped(tree: object) -> bytes:
    """The bytes of a tree."""
    return _encode({"~": _escape(tree)})


def unescaped(raw: bytes) -> object:
    """The tree in such bytes."""
    return _unescape(msgspec.json.decode(raw, type=dict[str, object])["~"])


def _escape(node: object) -> object:
    if isinstance(node, str):
        return _spelled(node.removeprefix(PATH))
    if isinstance(node, list | tuple):
        return [_escape(part) for part in node]
    if isinstance(node, dict):
        return {_escape_key(key): _escape(part) for key, part in node.items()}
    return node


def _escape_key(key: str) -> str:
    return _KEY + _spelled(key.removeprefix(PATH)) if key.startswith(PATH) else _spelled(key)


def _unescape(node: object) -> object:
    if isinstance(node, str):
        return _plain(node)
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
