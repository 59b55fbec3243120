"""Descriptions: which store this is, what it survives, and what it can do."""

from __future__ import annotations

import msgspec

#: What commits survive by the durability that was chosen, the weakest first.
KEEPS = {
    "process": "every commit that returned, except power loss",
    "power": "every commit that returned, through power loss",
}


class Description(msgspec.Struct, frozen=True):
    """The line an engine says at start: which store this is, what it keeps and what it lacks; and what it can do.

    `location` is for people, without any password. `shared`: other processes can open it too. `file`: where it is, if
    it is a file. `sql`: its reads take a question in SQL, `sql(query, values)`. `delivers_late`: a verb that its caller
    has given up may still be carried out. Nobody asks which store it is by name.
    """

    name: str
    location: str
    keeps: str
    lacks: str
    shared: bool = False
    file: str | None = None
    sql: bool = False
    delivers_late: bool = False
