"""An oracle of slots that knows neither cronsim nor our arithmetic: it walks real minutes and reads a wall clock.

Expressions are drawn as sets of numbers beside their text, so that nothing here parses one.
"""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

#: Zones and moments in UTC at which their clocks were moved. In Kathmandu and in UTC, none was.
CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00", "2026-10-25T01:00", "1980-04-06T01:00"),
    "Europe/Dublin": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "America/New_York": ("2026-03-08T07:00", "2026-11-01T06:00"),
    "Australia/Lord_Howe": ("2026-10-03T15:30", "2026-04-04T15:00"),
    "America/Sao_Paulo": ("2018-11-04T03:00", "2018-02-18T02:00"),
    "Asia/Tehran": ("2022-03-21T20:30", "2022-09-21T19:30"),
    "Pacific/Apia": ("2011-12-30T10:00", "2011-04-02T14:00"),
    "Pacific/Kwajalein": ("1993-08-21T12:00",),
    "Pacific/Chatham": ("2026-04-04T14:00", "2026-09-26T14:00"),
    "Antarctica/Troll": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "Antarctica/Vostok": ("1994-01-31T17:00", "1994-11-01T00:00"),
    "America/Caracas": ("2007-12-09T07:00", "2016-05-01T07:00"),
    "Asia/Kathmandu": ("2026-01-01T00:00",),
    "UTC": ("2024-02-29T00:00", "2026-12-31T23:59"),
}


@dataclass(frozen=True)
class Field:
    """A field of an expression as text, and the numbers that it means; `star` if its text begins with one."""

    text: str
    numbers: frozenset[int]

    @property
    def star(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class Expression:
    """Five fields."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    #: Matched beside the numbers of `day`.
    last_day: bool = False

    def __str__(self) -> str:
        return " ".join(field.text for field in (self.minute, self.hour, self.day, self.month, self.weekday))

    def matches(self, local: datetime) -> bool:
        if local.minute not in self.minute.numbers or local.hour not in self.hour.numbers:
            return False
        if local.month not in self.month.numbers:
            return False
        is_last = local.day == calendar.monthrange(local.year, local.month)[1]
        by_day = local.day in self.day.numbers or (self.last_day and is_last)
        by_weekday = local.isoweekday() % 7 in {number % 7 for number in self.weekday.numbers}
        either = not self.day.star and not self.weekday.star
        return by_day or by_weekday if either else by_day and by_weekday


def walked(expression: Expression, zone: ZoneInfo, low: datetime, high: datetime) -> Iterator[datetime]:
    """The slots in UTC after `low` up to `high`, both whole minutes.

    A minute or an hour with a star follows the clock: a slot is each minute that it shows. Other expressions name fixed
    times: the first showing counts, and times that the clock jumped over come at the minute where it landed.
    """
    fixed = not expression.minute.star and not expression.hour.star
    before, now = low.astimezone(zone).replace(tzinfo=None), low
    while (now := now + MINUTE) <= high:
        shown = now.astimezone(zone)
        local = shown.replace(tzinfo=None, fold=0)
        is_slot = expression.matches(local) and not (fixed and shown.fold)
        while fixed and (before := before + MINUTE) < local:
            is_slot = is_slot or expression.matches(before)
        if is_slot:
            yield now
        before = local


def fields(low: int, high: int, names: tuple[str, ...] = (), first: int = 0) -> st.SearchStrategy[Field]:
    """Fields over a range of numbers: stars, single values, ranges, lists and steps, sometimes by name."""
    numbers = st.integers(low, high)
    everything = frozenset(range(low, high + 1))

    def spelled(number: int) -> st.SearchStrategy[str]:
        named = number - first < len(names)
        return st.sampled_from([str(number), names[number - first]]) if named and names else st.just(str(number))

    def single(number: int) -> st.SearchStrategy[Field]:
        return spelled(number).map(lambda text: Field(text, frozenset({number})))

    def ranged(ends: tuple[int, int]) -> st.SearchStrategy[Field]:
        one, two = sorted(ends)
        meant = frozenset(range(one, two + 1))
        return st.tuples(spelled(one), spelled(two)).map(lambda texts: Field("-".join(texts), meant))

    def stepped(of: tuple[Field, int]) -> Field:
        field, step = of
        return Field(f"{field.text}/{step}", frozenset(sorted(field.numbers)[::step]))

    star = st.just(Field("*", everything))
    ranges = st.tuples(numbers, numbers).filter(lambda ends: ends[0] != ends[1]).flatmap(ranged)
    steps = st.tuples(star | ranges, st.integers(1, 20)).map(stepped)
    terms = numbers.flatmap(single) | ranges | steps.filter(lambda field: not field.star)
    lists = st.lists(terms, min_size=2, max_size=4).map(
        lambda all: Field(",".join(term.text for term in all), frozenset().union(*(term.numbers for term in all)))
    )
    return star | steps | terms | lists


def _expression(drawn: tuple[Field, Field, Field | None, Field, Field]) -> Expression:
    minute, hour, day, month, weekday = drawn
    if day is None:
        return Expression(minute, hour, Field("L", frozenset()), month, weekday, last_day=True)
    return Expression(minute, hour, day, month, weekday)


#: Days and months are mostly stars: with a random day and month the days around a change would hardly ever match.
_star_days, _star_months, _star_weekdays = (
    st.just(Field("*", frozenset(range(low, high)))) for low, high in ((1, 32), (1, 13), (0, 8))
)
expressions = st.tuples(
    fields(0, 59),
    fields(0, 23) | fields(0, 3).filter(lambda field: not field.star),
    _star_days | _star_days | fields(1, 31) | st.none(),
    _star_months | _star_months | fields(1, 12, MONTHS, first=1),
    _star_weekdays | _star_weekdays | fields(0, 7, DAYS),
).map(_expression)


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, datetime, datetime]:
    """A zone and two days, mostly around a change of its clock; both ends are whole minutes."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    near = st.sampled_from(CHANGES[zone]).map(lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC))
    anywhere = st.datetimes(datetime(1975, 1, 1), datetime(2037, 1, 1)).map(
        lambda when: when.replace(second=0, microsecond=0, tzinfo=UTC)
    )
    low = draw(near | near | anywhere) - draw(st.integers(0, 30 * 60)) * MINUTE
    return zone, low, low + timedelta(days=2)
