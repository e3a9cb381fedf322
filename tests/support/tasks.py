"""Tasks for people in the ledger of the state directory, as calls of a ``human`` skill leave them."""

import json
import secrets
import time

from tests.support.executions import make_execution
from tests.support.opened import BlockingLedger, open_ledger

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.blobs import FileOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import AsyncDatabase, Database

ANSWER = {
    "type": "object",
    "required": ["booked"],
    "properties": {
        "booked": {"type": "boolean", "description": "Whether there was a table."},
        "table": {"type": "integer", "minimum": 1, "maximum": 99},
        "room": {"enum": ["garden", "hall"], "default": "hall"},
        "wishes": {"type": "array", "items": {"type": "string"}},
    },
}


def open_at(state):
    database = AsyncDatabase(Database(state / "skillwire.db"))
    return BlockingLedger(SqlLedger(database, FileOutputs(FileBlobs(state / "outputs"))))


def add_task(
    *, state=None, output=ANSWER, title="Book a table", inputs=None, seconds=7200.0, execution_id=None, **more
):
    """Keep a task, in the state directory ``state`` if one is named; return it."""
    told = {
        "title": title,
        "description": "Call the restaurant and book a table.",
        "output": output,
        "output_description": "What the restaurant said",
        "inputs": {"guests": "How many come"},
    }
    fields = {
        "execution_id": execution_id or f"exec-{secrets.token_hex(16)}",
        "skill": "book-table",
        "skill_id": "corp/book-table",
        "executor": "human",
        "caller": "token abc",
        "caller_id": "concierge",
        "inputs": json.dumps({"guests": 4} if inputs is None else inputs).encode(),
        "timeout": seconds,
        "task": json.dumps(told).encode(),
        **more,
    }
    ledger = open_at(state) if state else open_ledger()
    kept = ledger.accept(make_execution(time.time(), **fields)).execution
    if state:
        ledger.close()
    return kept
