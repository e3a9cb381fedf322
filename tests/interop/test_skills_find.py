"""``skills find`` of npm searches ``skillwire serve``, and what it tells to type installs."""

import re

import pytest
from tests.interop.hosting import Serve
from tests.interop.peers import find_peer, run
from tests.interop.skill_samples import EXAMPLES, copy_examples
from tests.interop.trees import tree, trees

pytestmark = pytest.mark.deep


def test_what_is_found_is_installed_by_the_command_that_is_printed(tmp_path, workplace):
    folder = tmp_path / "skills"
    folder.mkdir()
    copy_examples(folder)
    with Serve(folder, tmp_path / "host") as publisher:
        command = [*find_peer("skills"), "find", "csv profile"]
        variables = {"SKILLS_API_URL": publisher.url}
        printed = run(command, cwd=workplace.folder, home=workplace.home, variables=variables)
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed)
        # It prints the command once, with a place for what is to be added, and then a line for each hit.
        [words] = re.findall(r"Install with npx skills (.+) <owner/repo@skill>", plain)
        [hit] = re.findall(r"^(\S+@csv-profile)(?: .*)?$", plain, re.MULTILINE)
        assert hit == f"{publisher.url}/@csv-profile"
        workplace.skills(*words.split(), hit, "-a", "codex", "-y", "--copy")
    assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}
