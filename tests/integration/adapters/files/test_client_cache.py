"""What processes keep of origins at the same time."""

import json
import multiprocessing

from skillwire.adapters.files.client_cache import FileOriginBook
from skillwire.model.ref import OriginRecord

FIRST = "2026-01-01T00:00:00Z"


def record_many(path, prefix):
    book = FileOriginBook(path)
    for number in range(20):
        book.record(f"https://{prefix}-{number}.example", OriginRecord(FIRST, accepted=True))


def test_processes_do_not_lose_each_others_records(tmp_path):
    path = tmp_path / "origins.json"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=record_many, args=(path, prefix)) for prefix in ("a", "b", "c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(json.loads(path.read_text())) == 60
