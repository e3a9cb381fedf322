"""Another API that stores calls durably: ``python bench/durable_api.py {dbos|procrastinate} ADDRESS PORT``.

FastAPI validates the call that ``invocation_post.py`` sends, stores it by the library and answers 202; ``GET /count``
says how many are stored. Nothing runs them, as nothing runs ours. ``ADDRESS`` is a database of SQLite or PostgreSQL.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    #: Stores a call and returns its id; counts those that are stored.
    Library = tuple[Callable[[dict[str, Any]], Awaitable[str]], Callable[[], Awaitable[int]]]

# They need not be where the types are checked.
fastapi: Final[Any] = importlib.import_module("fastapi")
pydantic: Final[Any] = importlib.import_module("pydantic")
uvicorn: Final[Any] = importlib.import_module("uvicorn")
CONNECTIONS: Final = 16  # to PostgreSQL; more did not store more on two cores

_model: Final = pydantic.create_model
Inputs: Final = _model(
    "Inputs",
    restaurant=(str, ...),
    date=(str, ...),
    time=(str, ...),
    guests=(float, ...),
    contact=(dict[str, Any], ...),
)
Caller: Final = _model("Caller", id=(str, ...), type=(str, ...))
Context: Final = _model("Context", trace_id=(str, ...), priority=(str, "normal"), timeout_ms=(int, 60_000))
Call: Final = _model("Call", caller=(Caller, ...), skill_id=(str, ...), inputs=(Inputs, ...), context=(Context, ...))


@contextlib.asynccontextmanager
async def with_dbos(address: str) -> AsyncIterator[Library]:
    """Store calls by the client of DBOS, in a queue."""
    dbos = importlib.import_module("dbos")
    config = dbos.DBOSConfig(
        name="bench",
        system_database_url=address,
        application_version="1",
        log_level="ERROR",
        sys_db_pool_size=CONNECTIONS,
    )
    dbos.DBOS(config=config)
    dbos.DBOS.launch()  # makes the tables
    client = dbos.DBOSClient(system_database_url=address)

    async def store(call: dict[str, Any]) -> str:
        handle = await client.enqueue_async({"queue_name": "calls", "workflow_name": "book_table"}, call)
        return str(handle.workflow_id)

    async def count() -> int:
        if address.startswith("sqlite"):
            sqlite = importlib.import_module("sqlite3").connect(address.removeprefix("sqlite:///"))
            return int(sqlite.execute("SELECT count(*) FROM workflow_status").fetchone()[0])
        return await _count(address, "dbos.workflow_status")

    yield store, count
    dbos.DBOS.destroy()


@contextlib.asynccontextmanager
async def with_procrastinate(address: str) -> AsyncIterator[Library]:
    """Store calls as jobs of procrastinate."""
    procrastinate = importlib.import_module("procrastinate")
    connector = procrastinate.PsycopgConnector(conninfo=address, min_size=CONNECTIONS, max_size=CONNECTIONS)
    jobs = procrastinate.App(connector=connector)

    async def book_table(**inputs: Any) -> dict[str, Any]:
        return inputs

    task = jobs.task(name="book_table")(book_table)
    async with jobs.open_async():
        await jobs.schema_manager.apply_schema_async()

        async def store(call: dict[str, Any]) -> str:
            return str(await task.defer_async(**call))

        async def count() -> int:
            return await _count(address, "procrastinate_jobs")

        yield store, count


async def _count(address: str, table: str) -> int:
    connection = await importlib.import_module("psycopg").AsyncConnection.connect(address)
    async with connection, await connection.execute(f"SELECT count(*) FROM {table}") as cursor:  # noqa: S608  # ours
        return int((await cursor.fetchone())[0])


LIBRARIES: Final = {"dbos": with_dbos, "procrastinate": with_procrastinate}


def main(library: str, address: str, port: str) -> None:
    """Serve until the process is ended."""
    stored: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with LIBRARIES[library](address) as (stored["store"], stored["count"]):
            yield

    api = fastapi.FastAPI(lifespan=lifespan)

    async def accept(call: Any) -> dict[str, str]:
        return {"execution_id": await stored["store"](call.model_dump()), "status": "accepted"}

    async def count() -> dict[str, int]:
        return {"count": await stored["count"]()}

    accept.__annotations__["call"] = Call
    api.post("/skills/book-table/executions", status_code=202)(accept)
    api.get("/count")(count)
    uvicorn.run(api, port=int(port), http="httptools", loop="uvloop", log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
