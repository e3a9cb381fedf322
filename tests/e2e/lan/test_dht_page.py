"""The page about the DHT is what happens on one machine: a bootstrap node, a provider, and a consumer."""

import json
import shutil
from pathlib import Path

from tests.support.command import run_command
from tests.support.dht_node import NODE as NODE_LINE
from tests.support.dht_node import port_in, running
from tests.support.eventually import eventually
from tests.support.free_port import free_port
from tests.support.loopback_lan import discovery, own_lan
from tests.support.pages import boxes, check, examples, play

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "topics" / "dht.md"
NODE, SERVER = "127.0.0.1:6881", "127.0.0.1:8000"


def test_the_page_is_what_happens(tmp_path):
    found = {box.title: examples(box.text) for box in boxes(PAGE)}
    settings = next(box.text for box in boxes(PAGE) if box.title == "skillwire.toml")
    skills = shutil.copytree(PROJECT / "examples" / "lan" / "office", tmp_path / "skills")
    project = tmp_path / "project"
    project.mkdir()
    lan = discovery(own_lan())

    def home(name, more="", node=""):
        text = settings.replace("6882", "0").replace("6881", node) + lan + more
        (tmp_path / name / "config").mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "config" / "skillwire.toml").write_text(text)
        return tmp_path / name

    def follow(title, where):
        check(play(found[title], project, addresses, home=where, user=tmp_path), len(found[title]))

    def ended_with(title, printed, replaced):
        [(_, shown)] = found[title]
        text = eventually(printed, lambda text: text.count("\n") >= shown.count("\n"), printed)
        lines = text.splitlines(keepends=True)[: shown.count("\n")]
        lines.sort(key=lambda line: line[:1].isdigit())  # the log is a stream of its own, whose lines may come first
        for old, new in replaced.items():
            lines = [line.replace(old, new) for line in lines]
        check([(title, shown, "".join(lines))], 1)

    with running(tmp_path / "node", "dht", "serve", "--port", "0") as said:
        node = port_in(said, NODE_LINE)
        ended_with("node", said, {node: "6881"})
        provider, consumer = home("provider", node=node), home("consumer", node=node)
        server = free_port()
        url = f"http://127.0.0.1:{server}"
        with running(provider, "serve", skills, "--dht", "--port", server, "--base-url", url) as log:
            own = port_in(log, "in the DHT .*port=")
            ended_with("provider", log, {str(server): "8000", own: "6882"})
            addresses = {NODE: f"127.0.0.1:{node}", SERVER: f"127.0.0.1:{server}"}
            asked = ("dht", "get", "staff-directory", "--bootstrap", addresses[NODE], "--json")
            environment = {"SKILLWIRE_HOME": str(consumer)}
            eventually(lambda: run_command(*asked, env=environment).code == 0, what=log)
            record = json.loads(run_command(*asked, env=environment).out)
            assert record["skills"][0]["endpoint"].rstrip("/") == f"http://{addresses[SERVER]}"
            follow("consumer", consumer)
            home("consumer", "\n[discovery.trust]\nuseUnverified = true\n", node)
            follow("trusting consumer", consumer)
        follow("afterwards", consumer)
