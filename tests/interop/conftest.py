"""Where a test lets programs work that no one here wrote, and the two ways in which ours puts skills online."""

from pathlib import Path
from typing import Any

import pytest
from tests.interop.hosting import Nginx, Serve
from tests.interop.peers import find_peer, run, skillwire


class Workplace:
    """An empty project of a user with an empty home, and the two installers in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.home = folder / "home"
        self.installed = self.folder / ".agents" / "skills"
        self.folder.mkdir()
        # An agent that the ``skills`` CLI finds: where it finds none, its updates install for every one it knows.
        (self.home / ".codex").mkdir(parents=True)

    def skills(self, *arguments: str, status: int = 0) -> str:
        """Run the ``skills`` CLI from npm; return what it printed."""
        return run([*find_peer("skills"), *arguments], cwd=self.folder, home=self.home, status=status)

    def skillwire(self, *arguments: object, status: int = 0) -> str:
        """Run ours; return what it printed."""
        return run(skillwire(*arguments), cwd=self.folder, home=self.home, status=status)


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """Give an empty project."""
    return Workplace(tmp_path)


@pytest.fixture(scope="module", params=[Serve, Nginx], ids=["serve", "nginx"])
def host(request: pytest.FixtureRequest) -> Any:
    """Give each way to put skills online: a class that is called with a folder of skills and a work folder."""
    if request.param is Nginx:
        find_peer("nginx")
    return request.param
