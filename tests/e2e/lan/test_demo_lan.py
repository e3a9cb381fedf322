"""``./dev demo --lan``: the six flows of SDP happen in the order of their figures, and nothing is left behind."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "tools" / "demo.py"
PATIENCE = 280.0
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
pytestmark = pytest.mark.deep


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


@pytest.fixture
def discovery(tmp_path, monkeypatch):
    """Give what plays the flow 3.3 with datagrams that a test names, and returns the numbers of its steps."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(ROOT / "examples" / "lan")
    flows, stage = import_module("flows"), import_module("stage")
    monkeypatch.setattr(stage, "PATIENCE", 0.0)
    shown: list[str] = []
    with stage.Stage(tmp_path, shown.append) as played:

        def send(who, to, text):
            played._datagram(who, "sent", f"10.98.0.9 {to}" * bool(to), text)

        def play(*acknowledged, answers):
            for name in ("Consumer", "Skill", "MCPAgent"):
                send(name, "", name)
                played._datagram("Observer", "heard", f"10.98.0.9 {name}", name)
            played.lines.append(stage.Event("line", "Observer", "", "staff-directory"))
            for name in acknowledged:
                send(name, "Skill", "SKILL_REGISTER_ACK:skill-1;SUCCESS;staff-directory registered;1")

            def run(*_):
                for question in ("SKILL_DISCOVER:c.1;org-data-read;", "JOIN_SCENE:c;auth;"):
                    send("Consumer", "", question)
                    kind = question.partition(":")[0]
                    send(answers, "Consumer", f"{kind}_RESPONSE:staff-directory;connectionInfo")

            flows.discovery(SimpleNamespace(stage=played, watch=lambda: None, serve=lambda _: None, run=run))
            played.play()
            return re.findall(r"^ ? ?(\d)  ", "\n".join(shown), re.MULTILINE)

        yield play
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("first", ["MCPAgent", "Skill"])
def test_the_registry_that_answers_first_makes_the_step(discovery, first):
    assert discovery("Skill", "MCPAgent", answers=first) == FIGURES["3.3"]


def test_a_consumer_starts_when_the_mcp_agent_lists_the_skill(discovery):
    with pytest.raises(Exception, match="in vain: the MCPAgent lists staff-directory"):
        discovery("Skill", answers="MCPAgent")
