"""What a server does for its memory."""

from __future__ import annotations

import gc
import weakref

import pytest

from skillwire.server.memory import keep_what_is_loaded


class Knot:
    """Something that holds itself."""

    def __init__(self):
        self.own = self


@pytest.fixture(autouse=True)
def _thawed():
    yield
    gc.unfreeze()


def test_what_is_loaded_is_kept_and_what_comes_later_is_still_collected():
    loaded = Knot()
    keep_what_is_loaded()
    assert gc.get_freeze_count() > 1_000
    assert loaded not in gc.get_objects()
    later = Knot()
    gone = weakref.ref(later)
    del later
    gc.collect()
    assert gone() is None
