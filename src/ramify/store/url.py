"""Facts about a store's URL without opening the store: the file it means, and how it may be shown.

A URL may hold a password. It is handed on as it is only to whoever opens the store; people, logs, errors and process
lists get it from `shown`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: The names of the store that lives inside one program.
IN_MEMORY = ("memory:", ":memory:")
HIDDEN = "***"
_IN_QUERY = re.compile(r"([?&;][^=&;]*(?:pass|pwd|secret|token)[^=&;]*=)[^&;#]*", re.IGNORECASE)


def file_of(url: str) -> Path | None:
    """The file behind a store URL; None for one that is not a file."""
    if url.startswith("sqlite:///"):
        return Path(os.path.expanduser(unquote(url.removeprefix("sqlite:///"))))
    return None if "://" in url or url in IN_MEMORY else Path(os.path.expanduser(url))


def shown(url: str | os.PathLike[str]) -> str:
    """A URL that may be shown: without a password in it."""
    text = os.fspath(url)
    if not isinstance(text, str) or "://" not in text:
        return str(text)
    scheme, _, rest = text.partition("://")
    try:
        password = urlsplit(text).password
    except ValueError:
        # Not a URL after all; nobody can tell which part of it is secret.
        return f"{scheme}://{HIDDEN}"
    if password:
        before, _, after = rest.partition(f":{password}@")
        rest = f"{before}:{HIDDEN}@{after}"
    return f"{scheme}://" + _IN_QUERY.sub(rf"\1{HIDDEN}", rest)
