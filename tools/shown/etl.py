"""A nightly load, in which a file cannot be read: `python etl.py`."""

from ramify import Backoff, Engine, Stream

engine = Engine("etl.db")
FAST = Backoff(first=0.01)


@engine.task
def files(day: str) -> list[str]:
    return [f"{day}-{n:02}.csv" for n in range(24)]


@engine.task(retries=2, backoff=FAST)
def load(file: str) -> int:
    if file.endswith("-17.csv"):
        raise ValueError(f"{file}: line 8 has 3 columns instead of 5")
    return 1000


@engine.task
def prices(day: str) -> dict[str, float]:
    return {"EUR": 1.0, "USD": 0.92}


@engine.task
def total(rows: Stream[int], rates: dict[str, float]) -> int:
    return sum(rows)


@engine.task
def publish(rows: int) -> None:
    """Write the report."""


@engine.task
def archive(names: list[str]) -> int:
    return len(names)


etl = engine.dag("etl")
day = etl.param("day", str)
listed = etl.add(files.of(day))
loaded = etl.map(load.of(listed.each))
rates = etl.add(prices.of(day))
summed = etl.add(total.of(loaded.out, rates.out))
etl.add(publish.of(summed.out))
etl.add(archive.of(listed.out))

if __name__ == "__main__":
    engine.run(etl.of(day="2026-01-05"), name="etl-0105")
