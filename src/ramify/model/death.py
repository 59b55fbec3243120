"""Deaths: how a process died, and what its tasks have on record because of it. Values only; see `blame` for the rules.

A death counts with *evidence* (an exit status, a fatal signal: the process died of its own doing) or as *silent*
(somebody's `kill -9`, or nothing is known). A task that its process *ran* is told from one that it merely *held*.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

#: So many deaths without evidence weigh as much as one with it.
SILENT_WEIGHT = 5
#: The width in bits of each count where deaths are packed into one number.
_WIDTH = 20
_MOST = 2**_WIDTH - 1


class Death(msgspec.Struct, frozen=True):
    """How a process died. `ran` are the tasks it was running, each with the `max_crashes` of its kind. It was killed
    over `late` ones, whose time was up: their attempt ends as timed out at the next claim.
    """

    ran: Mapping[int, int | None] = {}
    evidence: bool = False
    late: frozenset[int] = frozenset()


class Deaths(msgspec.Struct, frozen=True):
    """The recorded deaths of a live row. `apart`: only a process that holds nothing else gets it. `alone`: at the
    last death its one task was all that the process had.
    """

    ran: int = 0
    held: int = 0
    silent: int = 0
    apart: bool = False
    alone: bool = False

    @property
    def proven(self) -> int:
        """Deaths with evidence."""
        return self.ran + self.held

    @property
    def count(self) -> int:
        """All deaths."""
        return self.ran + self.held + self.silent

    @property
    def packed(self) -> int:
        """All of it as one number, for stores: 0 without deaths, and odd when it runs apart."""
        counts = 0
        for count in (self.silent, self.held, self.ran):
            counts = counts << _WIDTH | min(count, _MOST)
        return counts << 2 | self.alone << 1 | self.apart

    @classmethod
    def unpack(cls, packed: int) -> Deaths:
        """The inverse of `packed`."""
        if not packed:
            return NO_DEATHS
        ran, held, silent = (packed >> at & _MOST for at in (2, 2 + _WIDTH, 2 + 2 * _WIDTH))
        return cls(ran, held, silent, bool(packed & 1), bool(packed & 2))

    def blames(self, max_crashes: int | None) -> bool:
        """Return whether a single task with these deaths is to blame for them."""
        if max_crashes is None or not self.alone:
            return False
        return self.proven >= max_crashes or self.silent >= SILENT_WEIGHT * max_crashes


NO_DEATHS = Deaths()
#: Nobody is to blame: an announced stop, a restart of the machine, a process that left nothing to tell.
NOBODYS_FAULT = Death()
