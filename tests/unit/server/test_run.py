"""What the process of a server keeps in memory."""

import gc
import weakref

import pytest

from skillwire.server.run import keep_what_is_loaded, trim_memory


class Knot:
    """Something that holds itself."""

    def __init__(self):
        self.own = self


@pytest.fixture(autouse=True)
def no_other_collection():
    """Let no other thread collect meanwhile: collecting returns at once where another thread is at it."""
    gc.disable()
    yield
    gc.enable()


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


def test_trimming_collects_what_was_kept_and_is_unused_now():
    kept = Knot()
    gone = weakref.ref(kept)
    keep_what_is_loaded()
    del kept
    gc.collect()
    assert gone() is not None
    trim_memory()
    assert gone() is None
    assert gc.get_freeze_count() > 1_000
