"""The README's pictures show what happens now, and are small."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.eventually import PATIENCE
from tests.support.sandbox_world import sandbox_missing

PROJECT = Path(__file__).parents[2]
PICTURES = PROJECT / "docs" / "pictures"


def test_the_words_of_the_pictures_are_those_of_the_program():
    if why := sandbox_missing():
        pytest.skip(why)
    command = [sys.executable, str(PROJECT / "tools" / "pictures.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("pattern", "most", "count"), [("*.png", 150_000, 2), ("*.svg", 100_000, 1)])
def test_the_pictures_are_small(pattern, most, count):
    sizes = {path.name: path.stat().st_size for path in PICTURES.glob(pattern)}
    assert len(sizes) == count
    assert not {name: size for name, size in sizes.items() if size > most}
