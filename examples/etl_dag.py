"""A nightly load as a DAG: `python examples/etl_dag.py [DAY]`, such as `python examples/etl_dag.py 2026-01-05`.

It makes the files of that day itself, in the temporary folder. Then: list them, load each (one cannot be read, and is
left out), add up, and publish only if enough came. Kill it at any moment and start it again: it goes on where it was.
Started after it has finished, it loads the day anew.
"""

import sys
import tempfile
from datetime import date
from pathlib import Path

from ramify import Engine, Stream, current

engine = Engine(Path(tempfile.gettempdir()) / "ramify-etl-dag.db")
INBOX = Path(tempfile.gettempdir()) / "ramify-etl-dag"


@engine.task
def receive(day: date, files: int) -> list[Path]:
    INBOX.mkdir(exist_ok=True)
    paths = [INBOX / f"{day}-{number:03}.csv" for number in range(files)]
    for number, path in enumerate(paths):
        path.write_text("not a number\n" if number == 7 else "\n".join(str(row) for row in range(number)))
    return paths


@engine.task(retries=1, give_up_on=ValueError)
def load(file: Path, table: str) -> int:
    return sum(int(line) for line in file.read_text().splitlines())


@engine.task
def total(sums: Stream[int]) -> tuple[int, int]:
    return len(sums), sum(sums)


@engine.task
def judge(loaded: tuple[int, int], files: int) -> str:
    return "publish" if loaded[0] >= 0.9 * files else "hold"


@engine.task
def publish(day: date, loaded: tuple[int, int]) -> str:
    return f"{day}: {loaded[1]} in {loaded[0]} files"


@engine.task
def hold(day: date) -> str:
    return f"{day}: too many files are missing"


@engine.task
def tidy(day: date) -> str:
    for path in INBOX.glob(f"{day}-*.csv"):
        path.unlink()
    return f"{current().run.ends.skipped} tasks were skipped"


etl = engine.dag("etl")
day, many = etl.param("day", date), etl.param("files", int, 40)
files = etl.add(receive.of(day, many))
loads = etl.map(load.of(files.each, "orders"), on_failed="skip")
rows = etl.add(total.of(loads.out))
verdict = etl.add(judge.of(rows.out, many))
etl.add(publish.of(day, rows.out), after=[verdict.case("publish")])
etl.add(hold.of(day), after=[verdict.case("hold")])
etl.on_end(tidy.of(day))


def main() -> None:
    chosen = date.fromisoformat(sys.argv[1]) if len(sys.argv) > 1 else date(2026, 1, 5)
    run = engine.run(etl.of(day=chosen), name=f"etl {chosen}", again=True, max_running=8)
    print(*run.results(publish), *run.results(hold), *run.results(tidy), sep="\n")
    print(f"{run.counts.done} tasks; {run.begun.value if run.begun else ''} run")


if __name__ == "__main__":
    main()
