"""Fingerprints: the text of an error without what differs from case to case, so that errors that are alike look alike.

Folded are quoted text, addresses, paths, and every word with a digit in it: numbers, dates, ids, hexadecimals. What is
left is what the author of the error wrote. Each text is read once from left to right, so a hostile one costs no more
than its length.

It does not look at the type of the error nor at where it was raised; whoever groups adds what else must be equal.
"""

from __future__ import annotations

import re

#: How much of a folded text tells errors apart.
LONGEST = 300

# Every part begins where a word does and takes what it can without looking back, so no text is read twice.
_VARIES = re.compile(
    r"""
      (?P<quoted> "[^"\n]*" | `[^`\n]*` | (?<!\w)'[^'\n]*'(?!\w) )
    | (?P<address> (?<!\w)[a-z][a-z0-9+]{1,20}+://[^\s'"<>]++ )
    | (?P<path> (?<![\w.~/\\-])
        (?: (?: ~ | \.{1,2} | [A-Za-z]: )?+ [/\\] [^\s'":;,()<>/\\]++ | [\w.-]++ [/\\] [\w.-]++ )
        (?: [/\\] [^\s'":;,()<>/\\]*+ )*+ )
    | (?P<id> (?: (?<!\w)[+-] )?+
        (?: \b [0-9a-fA-F]{8} (?: -[0-9a-fA-F]{4} ){3} -[0-9a-fA-F]{12} \b | \b [0-9a-fA-F]{8,}+ \b
        | \b (?=[^\W\d]*+\d) \w++ (?: [-.:,] (?=[^\W\d]*+\d) \w++ )*+ ) )
    """,
    re.VERBOSE,
)
_SIGNS = {"quoted": "'…'", "address": "<address>", "path": "<path>", "id": "#"}


def fingerprint(text: str) -> str:
    """The text with everything folded that may differ between two errors of one kind."""
    return _VARIES.sub(_sign, text)[:LONGEST]


def _sign(found: re.Match[str]) -> str:
    return _SIGNS[found.lastgroup or "id"]
