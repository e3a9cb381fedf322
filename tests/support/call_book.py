"""A file of calls, as several processes see it."""

import json
from itertools import count

from skillwire.adapters.files.calls import FileCalls
from skillwire.model.remote_execution import CallRecord

URL = "https://example.com/call"


class Book:
    """Records in one file, as several processes see them."""

    def __init__(self, path):
        self.path = path
        self.now = 1_000_000.0
        self.numbers = count()

    def open(self):
        return FileCalls(self.path, lambda: self.now)

    def record(self, key=None, **more):
        key = key or f"key-{next(self.numbers)}"
        return CallRecord(key, "example.com/x", "acme/x", URL, self.now, **more)

    def begin(self, same=b"same", calls=None, *, may_take_up=True, **more):
        return (calls or self.open()).begin(self.record(**more), same, may_take_up=may_take_up)

    @property
    def rows(self):
        return json.loads(self.path.read_text())["calls"]
