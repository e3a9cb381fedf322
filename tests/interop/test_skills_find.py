"""``skills find`` of npm searches ``skillwire serve``, and what it tells to type installs."""

from __future__ import annotations

import re

import pytest
from tests.interop.hosting import Serve
from tests.interop.peers import find_peer, run
from tests.interop.skill_samples import EXAMPLES, copy_examples
from tests.interop.trees import tree, trees

pytestmark = pytest.mark.xdist_group("npm")


def test_what_is_found_is_installed_by_the_command_that_is_printed(tmp_path, workplace):
    folder = tmp_path / "skills"
    folder.mkdir()
    copy_examples(folder)
    with Serve(folder, tmp_path / "host") as publisher:
        command = [*find_peer("skills"), "find", "csv profile"]
        variables = {"SKILLS_API_URL": publisher.url}
        printed = run(command, cwd=workplace.folder, home=workplace.home, variables=variables)
        [source] = set(re.findall(r"http://\S+/@csv-profile\b", printed))
        assert source == f"{publisher.url}/@csv-profile"
        workplace.skills("add", source, "-a", "codex", "-y", "--copy")
    assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}
