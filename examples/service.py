"""Orders that are changed while they are still being opened: a web service in two processes, which share one store.

    pip install starlette uvicorn
    uvicorn --app-dir examples service:app --port 8000
    uvicorn --app-dir examples service:app --port 8001            # in a second terminal

    curl -X PUT localhost:8000/orders/o-1
    curl -X PUT "localhost:8001/orders/o-1/lines/1?item=tea"      # waits until the order is open
    curl localhost:8000/orders/o-1

Each request is stored before it is answered, and both processes do the work. Kill one at any moment: the other one
continues. A request without an answer may be sent again, to either. The store is in the temporary folder, or at
RAMIFY_URL. `service_feed.py` shows the changes live.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ramify import BadPayload, ConfigError, Engine, FailedTask, Fatal, Published, current

FOLDER, MONTH = Path(tempfile.gettempdir()), timedelta(days=30)


@dataclass
class Order:
    job: int  # the job that opened it
    items: list[str]


@dataclass
class Change:
    order: str
    item: str | None  # None: the order was opened


engine = Engine(os.environ.get("RAMIFY_URL") or FOLDER / "ramify-service.db")
orders = engine.values("orders", Order)
sold = engine.values("sold", int)
changes = engine.topic("changes", Change, keep=MONTH)


@engine.task(limit=engine.limit("supplier", max_running=4), keep=MONTH)  # four in both processes together
async def open_order(id: str) -> None:
    await asyncio.sleep(1)  # the supplier is slow
    current().values("orders", Order).set(id, Order(current().task, []))
    changes.publish(Change(id, None), key=id)  # stored together with the order


@engine.task(keep=MONTH)
def add_line(id: str, item: str) -> None:
    if item == "moon":
        raise Fatal("the moon is not for sale")
    current().values("orders", Order).update(id, lambda order: Order(order.job, [*order.items, item]))
    changes.publish(Change(id, item), key=id)


@engine.on(changes, ordered=True)  # the changes of one order one by one, in order
def book(change: Published[Change]) -> None:
    write_once(f"{change.key}: {change.value.item or 'opened'}")


@engine.on(engine.failures)
def alarm(failure: FailedTask) -> None:
    write_once(f"{failure.kind} failed: {failure.error.text}")


def write_once(line: str) -> None:
    """Add a line to the ledger, one process at a time, unless a killed attempt of this task has added it."""
    key = current().idempotency_key
    with engine.lock("ledger"), (FOLDER / "ramify-service-ledger.txt").open("a+") as ledger:
        ledger.seek(0)
        if not any(each.startswith(f"{key} ") for each in ledger):
            ledger.write(f"{key} {line!r}\n")


@engine.cron(every=timedelta(seconds=2))
@engine.task
def count() -> None:
    for change in changes.read("count"):  # from where the last count stopped
        if change.value.item:
            current().values("sold", int).update(change.value.item, lambda many: many + 1, default=0)


# Routes that use the store are `def`: Starlette calls them in threads.
def put_order(request: Request) -> JSONResponse:
    id = request.path_params["id"]
    if order := orders.get(id):
        return JSONResponse({"job": order.job, "new": False})
    job = engine.enqueue(open_order.of(id).unique(id))
    return JSONResponse({"job": job.id, "new": job.is_new}, 202)


def put_line(request: Request) -> JSONResponse:
    id, line, item = request.path_params["id"], request.path_params["line"], request.query_params.get("item", "tea")
    # The new line waits for the job that opens the order. Once that has ended, it waits for the lines before it.
    opening = engine.job_for(open_order, id) or engine.job(found(id).job)
    job = engine.enqueue(add_line.of(id, item).unique(f"{id}/{line}"), after=opening)
    return JSONResponse({"job": job.id, "new": job.is_new}, 202)


def get_order(request: Request) -> JSONResponse:
    return JSONResponse({"items": found(request.path_params["id"]).items})


def get_job(request: Request) -> JSONResponse:
    job = engine.job(int(request.path_params["id"]))
    return JSONResponse({"state": job.state, "error": str(job.error) if job.error else None})


def found(id: str) -> Order:
    order = orders.get(id)
    if order is None:
        raise HTTPException(404, f"there is no order {id}, or it is not open yet")
    return order


def refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 422)  # a name that is too long, or a line a month after its order


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with engine.working():  # beside its requests, each process works on the jobs of all
        yield


app = Starlette(
    routes=[
        Route("/orders/{id}", put_order, methods=["PUT"]),
        Route("/orders/{id}", get_order),
        Route("/orders/{id}/lines/{line}", put_line, methods=["PUT"]),
        Route("/jobs/{id}", get_job),
        Route("/sold", lambda request: JSONResponse(dict(sold.items()))),
    ],
    exception_handlers={BadPayload: refuse, ConfigError: refuse, ValueError: refuse},
    lifespan=lifespan,
)
