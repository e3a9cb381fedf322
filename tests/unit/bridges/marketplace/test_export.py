"""The marketplace that we write has the form that Claude takes, and what is imported from it is what was exported."""

import json
import re

import pytest
from tests.support.publishing import write_skill

from skillwire.bridges.marketplace.documents import (
    ListedSkill,
    check_marketplace_name,
    encode_marketplace,
    is_untouched,
    read_marketplace,
)
from skillwire.bridges.marketplace.gather import gather
from skillwire.errors import UsageError
from skillwire.folder.publish import PreparedSkill, prepare


def listed(root, *names):
    return [ListedSkill(prepared(root / name).skill, name) for name in names]


def prepared(folder):
    found = prepare(folder, "local")
    assert isinstance(found, PreparedSkill), found.findings
    return found


def test_each_skill_is_a_plugin_whose_entry_is_its_manifest(tmp_path):
    write_skill(tmp_path / "skills", "a", description="Does a.")
    write_skill(tmp_path / "skills", "b", version="0.1.0")
    document = json.loads(encode_marketplace("shop", "Me", listed(tmp_path, "skills/b", "skills/a")))
    assert document["name"] == "shop"
    assert document["owner"] == {"name": "Me"}
    first, second = document["plugins"]
    assert first == {
        "name": "a",
        "description": "Does a.",
        "version": "1.0.0",
        "author": {"name": "Me"},
        "source": "./skills",
        "strict": False,
        "skills": ["./a"],
    }
    assert "version" not in second  # it would hold back every update


@pytest.mark.parametrize("folder", ["a", "skills/a", "deep/er/a"])
def test_what_is_written_is_read_back(tmp_path, folder):
    write_skill((tmp_path / folder).parent, "a", {"references/x.md": "x"})
    written = encode_marketplace("shop", "Me", listed(tmp_path, folder))
    assert all(re.match(r"\./", one) for entry in json.loads(written)["plugins"] for one in entry["skills"])
    assert read_marketplace(written, "x").findings == ()
    (tmp_path / ".claude-plugin").mkdir()
    (tmp_path / ".claude-plugin/marketplace.json").write_bytes(written)
    gathered = gather(tmp_path)
    assert [(name, skill.place) for name, skill in gathered.skills.items()] == [("a", str(tmp_path / folder))]
    assert gathered.findings == []


def test_a_document_of_ours_is_known_until_a_byte_changes(tmp_path):
    write_skill(tmp_path, "a", description="Does ü.")
    written = encode_marketplace("shop", "Me", listed(tmp_path, "a"))
    assert is_untouched(written)
    again = json.dumps(json.loads(written)).encode()
    for other in (written[:-1], written.replace(b"Me", b"Us"), again, b"{}", b"[", b"[]", b'{"metadata": 5}'):
        assert not is_untouched(other)


def test_the_root_itself_is_a_skill(tmp_path):
    folder = write_skill(tmp_path, "alone")
    skill = prepared(folder).skill
    [plugin] = json.loads(encode_marketplace("shop", "Me", [ListedSkill(skill, "")]))["plugins"]
    assert (plugin["source"], plugin["skills"]) == ("./", ["./"])


@pytest.mark.parametrize(
    "name", ["", "a b", "ü", "a/b", "..", "a..b", "-a", "NPM", "agent-skills", "claudeai-x", "x" * 129]
)
def test_names_that_claude_would_not_take_are_refused(name):
    with pytest.raises(UsageError):
        check_marketplace_name(name)


def test_usual_names_pass():
    assert check_marketplace_name("my-skills.v2") == "my-skills.v2"
