"""Reports on demand in a web app: `uvicorn --app-dir examples fastapi_app:app` (`pip install fastapi uvicorn`).

A report takes a while, so a request only enqueues it and says where to look. Who asks for the same one gets the same
one, whether it is waiting, at work or done; `?again=true` makes one that is done anew. The app does the work itself,
beside its requests. Kill it at any moment and start it again: no report that somebody was promised is lost.

    curl localhost:8000/reports --json '{"customer": "ann", "days": 30}'
    curl localhost:8000/reports/ID
    curl localhost:8000/reports?state=running
    curl localhost:8000/reports/ID -X DELETE
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, field_validator

from ramify import Engine, Job, JobState, QueueFull, current

engine = Engine(Path(tempfile.gettempdir()) / "ramify-fastapi-app.db")
engine.queue("reports", max_pending=1_000)  # who comes when so many wait is turned away, and promised nothing


class Wanted(BaseModel):
    customer: str
    days: int

    @field_validator("customer")
    @classmethod
    def can_be_written(cls, customer: str) -> str:
        # JSON can bring half of a character, which could be in no answer; a ValueError would be answered with it.
        if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in customer):
            raise HTTPException(422, "the customer has a NUL or half of a character in its name")
        return customer


@engine.task(queue="reports", retries=2)
async def make_report(wanted: Wanted) -> str:
    sold = 0
    for day in range(wanted.days):
        await asyncio.sleep(0.05)  # a slow query
        sold += day
        current().progress(day + 1, wanted.days, "days")
    return f"{wanted.customer} bought {sold}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.working():  # when the server stops, what runs may finish; the rest is done after the next start
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports", status_code=202)
async def order(wanted: Wanted, again: bool = False) -> dict[str, int | bool]:
    try:
        job = await engine.aenqueue(make_report.of(wanted).unique(), again=again)
    except QueueFull as full:
        raise HTTPException(503, str(full)) from None
    return {"id": job.id, "new": job.is_new}


# Reading waits for the disk, so what follows is `def`: FastAPI calls it in a thread.
@app.get("/reports")
def show_all(state: JobState | None = None, before: int = 0) -> list[dict[str, Any]]:
    return [told(job) for job in islice(engine.jobs(kind=make_report, state=state, before=before), 20)]


@app.get("/reports/{id}")
def show(id: int) -> dict[str, Any]:
    return told(found(id))


@app.delete("/reports/{id}")
def cancel(id: int) -> dict[str, str]:
    return {"cancel": found(id).cancel("by request").name.lower()}  # certain, requested while it runs, or ended before


def found(id: int) -> Job[str]:
    job = engine.job(id)
    if job.kind != make_report.kind:
        raise HTTPException(404, f"there is no report {id}")
    return job


def told(job: Job[str]) -> dict[str, Any]:
    state, progress, error = job.state, job.progress, job.error
    return {
        "id": job.id,
        "state": state,
        "progress": progress.text if progress and state is JobState.RUNNING else None,
        "text": job.result(0) if state is JobState.DONE else None,
        "error": str(error) if error else None,
    }
