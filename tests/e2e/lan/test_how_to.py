"""The how-to of the local network can be followed, on loopback: a provider, an authority, and a consumer."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support.loopback_lan import discovery, own_lan
from tests.support.pages import boxes, check, examples
from tests.support.processes import started

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "how-to" / "lan.md"
WRITTEN = 8000  # the first port on the page
PATIENCE = 150.0


@pytest.fixture
def network():
    """Return the settings of a network of our own on loopback."""
    return discovery(own_lan(), patience=4000)


class Reader:
    """Somebody who follows the page: one home for each role, and one folder."""

    def __init__(self, folder, network):
        self.folder = folder
        self.network = network
        self.acts = []
        (folder / "examples").symlink_to(PROJECT / "examples")
        for role in ("provider", "authority", "consumer"):
            self.configure(role, "")

    def configure(self, role, text):
        config = self.folder / "homes" / role / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "skillwire.toml").write_text(text + self.network)

    def environment(self, role):
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "SKILLWIRE_HOME": str(self.folder / "homes" / role),
            "HOME": str(self.folder),
        }

    def act(self, box, *addresses):
        """Type the commands of a box; the page has the servers at ``addresses`` at ports from 8000 on."""
        for command, written in examples(box.text):
            for port, address in enumerate(addresses, WRITTEN):
                command = command.replace(f"127.0.0.1:{port}", address)  # noqa: PLW2901  # as it is typed here
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=self.folder,
                env=self.environment(box.title.split()[-1]),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            shown = done.stdout
            for port, address in enumerate(addresses, WRITTEN):
                shown = shown.replace(address.rpartition(":")[2], str(port))
            self.acts.append((command, written, shown))

    @contextmanager
    def serving(self, command):
        """Run the command of the server as it stands on the page, at a free port; give its address."""
        server = subprocess.Popen(
            ["sh", "-c", f"exec {command} --host 127.0.0.1 --port 0"],
            cwd=self.folder,
            env=self.environment("provider"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            said = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())
            assert said is not None, "the server did not start"
            yield said[0]
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=PATIENCE)


def test_the_page_can_be_followed(tmp_path, network):
    reader = Reader(tmp_path, network)
    found = boxes(PAGE)
    first = next(box for box in found if box.title == "server")
    [(command, _)] = examples(first.text)
    after = found[found.index(first) + 1 :]
    for box in found[: found.index(first)]:
        reader.act(box)
    trusting = next(place for place, box in enumerate(after) if box.title == "skillwire.toml")
    with reader.serving(command) as address:
        for box in after[:trusting]:
            reader.act(box, address)
    reader.configure("consumer", after[trusting].text)
    with ExitStack() as stack:
        addresses = [stack.enter_context(reader.serving(command))]
        for box in after[trusting + 1 :]:
            if box.title == "notes.py":
                script = tmp_path / box.title
                script.write_text(box.text.replace('host="0.0.0.0", port=8001', 'host="127.0.0.1", port=0'))
                home = reader.environment("provider")["SKILLWIRE_HOME"]
                addresses.append(stack.enter_context(started(script, home=home)).removeprefix("http://"))
            reader.act(box, *addresses)
    check(reader.acts, least=14)
