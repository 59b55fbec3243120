"""Text that came from tasks, made safe for a terminal.

Names, keys, arguments, errors and log lines are written by whoever made the tasks. Printed raw, they could move the
cursor, change colours, set the window's title, or turn the reading direction around and lie about what they say. So
everything that is no plain printable character is shown as an escape: `\\x1b`, `\\n`, `\\u202e`.

Lines for people are built from pieces, so that whoever writes them makes each safe and adds the colours.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any

#: A piece of a line: plain text, or text with a style of `STYLES`.
Piece = str | tuple[str, str]

STYLES: Mapping[str, Mapping[str, Any]] = {
    "name": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "look": {"fg": "yellow"},
    "head": {"dim": True},
}

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: control characters, ESC among them
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # separators, bidi, invisible
    "\ud800-\udfff"  # lone surrogates: file names that are not UTF-8
    "\ufdd0-\ufdef\ufffe\uffff"  # never characters
    "\U000e0000-\U000e0fff"  # tags: invisible text
    "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe_text(text: str) -> str:
    """`text` without anything a terminal obeys; a whole line of it stays one line."""
    return _UNSAFE.sub(_escaped, text)


def tell(text: str) -> None:
    """One line on standard error, safe; nothing where there is none."""
    stream = sys.stderr
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(safe_text(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def columns(text: str) -> int:
    """How many columns a safe text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def shortened(text: str, limit: int) -> str:
    """A safe text cut to `limit` columns, with an ellipsis where it was cut."""
    if columns(text) <= limit:
        return text
    kept, used = [], 0
    for character in text:
        used += _columns_of(character)
        if used > limit - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def shortened_inside(text: str, limit: int) -> str:
    """The same, cut in the middle: names that begin alike mostly differ at their ends."""
    if columns(text) <= limit:
        return text
    head = shortened(text, limit // 2 + 1)
    # Its last character is the ellipsis, and so is that of the end, which is looked at backwards.
    return head + shortened(text[::-1], limit - columns(head) + 1)[-2::-1]


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
