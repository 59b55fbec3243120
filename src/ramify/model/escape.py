"""The escaped form: JSON for values whose strings hold lone surrogates, which UTF-8 cannot.

File names that are not UTF-8 reach Python as such strings. The whole value is written as `{"~": value}`, and every
surrogate and every `~` in its strings, keys included, as `~` and four hex digits, so each string has one spelling and
each spelling one string.

Promises: `unescaped(escaped(tree))` is the same tree. Bytes that begin with `MARK` are in this form: a value that would
begin with it in plain JSON is written in this form instead.

Does not know types: it works on trees of lists, dicts and strings.
"""

import re

import msgspec

#: How the escaped form begins.
MARK = b'{"~'

_UNSAFE = re.compile("[~\ud800-\udfff]")
_SPELLED = re.compile("~([0-9a-f]{4})")
_encode = msgspec.json.Encoder().encode


class Key(str):
    """A key that msgspec is to decode by its type.

    `msgspec.convert` leaves a plain string as it is where the keys are of a type of ours, such as Path (its issue 775).
    """


def escaped(tree: object, *, typed_keys: bool = False) -> bytes:
    """The bytes of a tree; with `typed_keys` its keys come back as Key."""
    return _encode({"~keys" if typed_keys else "~": _escape(tree)})


def unescaped(raw: bytes) -> object:
    """The tree in such bytes."""
    ((name, tree),) = msgspec.json.decode(raw, type=dict[str, object]).items()
    return _unescape(tree, Key if name == "~keys" else str)


def _escape(node: object) -> object:
    if isinstance(node, str):
        return _UNSAFE.sub(lambda found: f"~{ord(found[0]):04x}", node)
    if isinstance(node, list | tuple):
        return [_escape(part) for part in node]
    if isinstance(node, dict):
        return {_escape(key): _escape(part) for key, part in node.items()}
    return node


def _unescape(node: object, key_type: type[str]) -> object:
    if isinstance(node, str):
        return _plain(node)
    if isinstance(node, list):
        return [_unescape(part, key_type) for part in node]
    if isinstance(node, dict):
        return {key_type(_plain(key)): _unescape(part, key_type) for key, part in node.items()}
    return node


def _plain(text: str) -> str:
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text)
