"""``./dev demo --lan``: the six flows of SDP happen in the order of their figures, and nothing is left behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[3] / "tools" / "demo.py"
PATIENCE = 110.0
#: The numbers of the text's figures, as they have to follow.
FIGURES = {
    "2.2": ["1", "2", "3", "4", "5"],
    "3.3": ["1", "2", "3", "4"],
    "4.2": ["1", "2a", "1", "2b", "3"],
    "8.3": ["1", "1", "2"],
    "9.2": ["1", "2"],
    "10.3": ["1", "2", "3", "4"],
}
BOXES = {"4.2": 4, "8.3": 2, "9.2": 2, "10.3": 1}
pytestmark = [pytest.mark.timeout(120), pytest.mark.deep]


def play(folder, *arguments):
    """Play the demo in a pipe; return what it shows."""
    done = subprocess.run(
        [sys.executable, DEMO, "--lan", *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    assert not list(folder.iterdir())
    return done.stdout


def flows(shown):
    """Return the numbers of each flow's steps, in their order."""
    _, *parts = re.split(r"^== (\S+) .*\n", shown, flags=re.MULTILINE)
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {name: re.findall(r"^ ? ?(\d\w?|\*)  ", text, re.MULTILINE) for name, text in texts}


@pytest.mark.parametrize("name", FIGURES)
def test_a_flow_happens_in_the_order_of_its_figure(name, tmp_path):
    shown = play(tmp_path, name)
    [numbers] = flows(shown).values()
    assert [number for number in numbers if number != "*"] == FIGURES[name]
    assert numbers.count("*") == BOXES.get(name, 0)
    assert re.match(r"# (3 network namespaces on one bridge|all on 127\.0\.0\.1, since )", shown)


def test_it_happens_on_one_machine_too(tmp_path):
    shown = play(tmp_path, "--loopback", "2.2", "9.2")
    assert shown.startswith("# all on 127.0.0.1, as was asked\n")
    assert list(flows(shown)) == ["2.2", "9.2"]


def test_a_flow_that_there_is_not_is_named():
    done = subprocess.run(
        [sys.executable, DEMO, "--lan", "2.3"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert f"no flow 2.3; there are {', '.join(FIGURES)}\n" in done.stderr
