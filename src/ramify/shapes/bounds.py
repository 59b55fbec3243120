"""Bounds of a run, as somebody asks for them: checked, and as the store keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ramify.errors import ConfigError
from ramify.model.policy import SECOND, Duration, microseconds_in, seconds_in


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many tasks of a run may run at a time, how many it may have, and until when it may go on."""

    max_running: int | None = None
    max_tasks: int | None = None
    deadline: Duration | datetime | None = None

    def check(self, roots: int) -> None:
        """Refuse bounds that make no sense for a run with so many roots."""
        for option, value in (("max_running", self.max_running), ("max_tasks", self.max_tasks)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"{option}={value!r}: expected a whole number, 1 or more.")
        if self.max_tasks is not None and self.max_tasks < roots:
            raise ConfigError(f"max_tasks={self.max_tasks}: expected at least {roots}, the number of roots.")
        match self.deadline:
            case None:
                pass
            case datetime() if self.deadline.utcoffset() is not None:
                pass
            case _ if seconds_in(self.deadline) is not None:
                if not microseconds_in(self.deadline):
                    raise ConfigError(
                        f"deadline={self.deadline!r}: expected more than 0 seconds from the start of the run."
                    )
            case _:
                raise ConfigError(
                    f"deadline={self.deadline!r}: expected seconds, a timedelta, or a datetime with a time zone. "
                    "Write deadline=timedelta(hours=1)."
                )

    def moment(self, now: int) -> int | None:
        """The deadline by the store's clock, for a run that begins now."""
        match self.deadline:
            case None:
                return None
            case datetime():
                return round(self.deadline.timestamp() * SECOND)
            case _:
                return now + (microseconds_in(self.deadline) or 0)
