"""Skills are taken from where a marketplace in a folder says, and from nowhere else."""

import json
import os
import re
from pathlib import Path

import pytest
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.bridges.marketplace import (
    ExternalPlugin,
    ListedSkill,
    check_marketplace_name,
    encode_marketplace,
    gather,
    is_untouched,
    read_marketplace,
    read_plugin_skills,
)
from skillwire.errors import SkillwireError, UsageError, ValidationError
from skillwire.folder.publish import PreparedSkill, prepare


def write(root: Path, *plugins: object, **more: object) -> Path:
    path = root / ".claude-plugin" / "marketplace.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "shop", "owner": {"name": "Me"}, "plugins": list(plugins), **more}))
    return root


def taken(root: Path) -> dict[str, str]:
    return {name: os.path.relpath(skill.place, root) for name, skill in gather(root).skills.items()}


def codes(root: Path) -> list[str]:
    return [finding.code for finding in gather(root).findings]


def test_listed_skills_and_nothing_beside_them(tmp_path):
    for name in ("a", "b", "c"):
        write_skill(tmp_path / "skills", name, {"scripts/x.sh": "#!/bin/sh\n"})
    write(tmp_path, {"name": "some", "source": "./", "strict": False, "skills": ["./skills/a", "./skills/b"]})
    assert taken(tmp_path) == {"a": "skills/a", "b": "skills/b"}
    assert {file.path for file in gather(tmp_path).skills["a"].files} == {"SKILL.md", "scripts/x.sh"}


def test_a_plugin_has_its_skills_folder_and_what_its_manifest_and_its_entry_add(tmp_path):
    plugin = tmp_path / "plugins/p"
    write_skill(plugin / "skills", "usual")
    write_skill(plugin / "more", "own")
    write_skill(plugin / "entry", "added")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "p", "skills": "./more/"}')
    write(tmp_path, {"name": "p", "source": "./plugins/p", "skills": "./entry/added"})
    assert taken(tmp_path) == {
        "usual": "plugins/p/skills/usual",
        "own": "plugins/p/more/own",
        "added": "plugins/p/entry/added",
    }


def test_a_plugin_without_a_marketplace_and_one_that_is_a_skill(tmp_path):
    write_skill(tmp_path / "repo" / "skills", "a")
    assert taken(tmp_path / "repo") == {"a": "skills/a"}
    assert taken(write_skill(tmp_path, "alone")) == {"alone": "."}
    with pytest.raises(ValidationError, match="MARKETPLACE_FORM"):
        gather(tmp_path)


def test_a_skill_that_two_plugins_list_is_taken_once(tmp_path):
    write_skill(tmp_path / "skills", "a")
    write(tmp_path, *({"name": name, "source": "./", "skills": ["./skills/a"]} for name in ("one", "two")))
    assert taken(tmp_path) == {"a": "skills/a"}
    assert codes(tmp_path) == []


def test_two_skills_of_one_name_are_told_and_the_first_is_taken(tmp_path):
    write_skill(tmp_path / "p/skills", "a")
    write_skill(tmp_path / "q/skills", "a", body="Do something else.\n")
    write(tmp_path, {"name": "p", "source": "./p"}, {"name": "q", "source": "./q"})
    assert taken(tmp_path) == {"a": "p/skills/a"}
    assert codes(tmp_path) == ["SKILL_CONFLICT"]


def test_a_skill_gets_the_name_that_its_frontmatter_says(tmp_path):
    write_skill(tmp_path / "skills", "right-name").rename(tmp_path / "skills/Other Folder")
    write(tmp_path, {"name": "p", "source": "./"})
    assert list(taken(tmp_path)) == ["right-name"]


def test_what_is_elsewhere_empty_or_broken_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    write_skill(tmp_path / "bad/skills", "broken", {"SKILL.md": "no frontmatter"})
    write(
        tmp_path,
        {"name": "git", "source": {"source": "github", "repo": "a/b"}},
        {"name": "empty", "source": "./empty"},
        {"name": "gone", "source": "./gone"},
        {"name": "bad", "source": "./bad"},
    )
    assert taken(tmp_path) == {}
    assert codes(tmp_path) == ["PLUGIN_ELSEWHERE", "PLUGIN_WITHOUT_SKILLS", "PLUGIN_FORM", "FRONTMATTER"]
    assert "git clone --depth 1 https://github.com/a/b" in gather(tmp_path).findings[0].fix


class TestHostileFolders:
    @pytest.fixture
    def outside(self, tmp_path):
        return write_skill(tmp_path / "outside", "secret", {"key.txt": "hidden"})

    def test_no_link_leads_to_a_skill_outside(self, tmp_path, outside):
        root = tmp_path / "shop"
        (root / "skills").mkdir(parents=True)
        (root / "skills/secret").symlink_to(outside)
        (root / "linked").symlink_to(outside.parent)
        write(
            root,
            {"name": "a", "source": "./"},
            {"name": "b", "source": "./linked"},
            {"name": "c", "source": "./", "skills": ["./skills/secret"]},
        )
        assert taken(root) == {}

    def test_no_link_within_a_skill_leads_out_of_it(self, tmp_path, outside):
        root = tmp_path / "shop"
        folder = write_skill(root / "skills", "a")
        (folder / "key.txt").symlink_to(outside / "key.txt")
        write(root, {"name": "a", "source": "./"})
        assert all(file.path != "key.txt" for skill in gather(root).skills.values() for file in skill.files)

    def test_a_link_to_another_place_of_the_marketplace_is_followed(self, tmp_path):
        root = tmp_path / "shop"
        folder = write_skill(root / "shared", "a")
        (root / "p/skills").mkdir(parents=True)
        (root / "p/skills/a").symlink_to(folder)
        write(root, {"name": "p", "source": "./p"})
        assert taken(root) == {"a": "p/skills/a"}

    def test_a_manifest_that_is_a_link_to_the_outside_is_not_read(self, tmp_path):
        root = tmp_path / "shop"
        write_skill(root / "more", "a")
        (tmp_path / "outside.json").write_text('{"name": "p", "skills": ["./more/a"]}')
        (root / ".claude-plugin").mkdir()
        (root / ".claude-plugin/plugin.json").symlink_to(tmp_path / "outside.json")
        write(root, {"name": "p", "source": "./"})
        assert taken(root) == {}

    def test_skills_are_bounded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(limits, "MARKETPLACE_SKILLS", 2)
        for name in "abc":
            write_skill(tmp_path / "skills", name)
        write(tmp_path, {"name": "p", "source": "./"})
        assert list(taken(tmp_path)) == ["a", "b"]
        assert codes(tmp_path) == ["LIMIT_ENTRIES"]


def read(*plugins: object, **more: object):
    document = {"name": "shop", "owner": {"name": "Me"}, "plugins": list(plugins), **more}
    return read_marketplace(json.dumps(document).encode(), "marketplace.json")


def test_a_collection_of_skills_is_read_as_published():
    marketplace = read(
        {
            "name": "document-skills",
            "description": "Collection of document processing",
            "source": "./",
            "strict": False,
            "skills": ["./skills/xlsx", "./skills/docx/"],
        },
        {"name": "own", "source": "./plugins/own"},
        metadata={"description": "Example skills", "version": "1.0.0"},
    )
    assert marketplace.name == "shop"
    assert [(one.name, one.source, one.skills) for one in marketplace.plugins] == [
        ("document-skills", "", ("skills/xlsx", "skills/docx")),
        ("own", "plugins/own", ()),
    ]
    assert marketplace.findings == ()


def test_bare_names_are_below_the_plugin_root():
    [bare, full] = read(
        {"name": "a", "source": "formatter"},
        {"name": "b", "source": "./elsewhere/b"},
        metadata={"pluginRoot": "./plugins"},
    ).plugins
    assert (bare.source, full.source) == ("plugins/formatter", "elsewhere/b")


@pytest.mark.parametrize(
    "source",
    [
        "../other",
        "./../other",
        "./a/../../b",
        "/etc",
        ".\\..\\x",
        "./a//b",
        "./%2e%2e/x",
        "./C:/x",
        "./.git/hooks",
        "./a\x00b",
        "formatter",
        "",
        7,
        None,
        ["./a"],
    ],
)
def test_no_source_leads_out_of_the_marketplace(source):
    marketplace = read({"name": "bad", "source": source}, {"name": "good", "source": "./good"})
    assert [plugin.name for plugin in marketplace.plugins] == ["good"]
    [finding] = marketplace.findings
    assert finding.code == "PLUGIN_FORM"
    assert "'bad'" in finding.message


@pytest.mark.parametrize("skills", ["../x", ["./ok", "/etc"], [["./x"]], {"a": 1}, [None], 5])
def test_no_list_of_skills_leads_out_of_its_plugin(skills):
    assert read({"name": "bad", "source": "./a", "skills": skills}).plugins == ()
    with pytest.raises(SkillwireError):
        read_plugin_skills(json.dumps({"name": "bad", "skills": skills}).encode(), "plugin.json")


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ({"source": "github", "repo": "a/b", "ref": "v1"}, "git clone --depth 1 --branch v1 https://github.com/a/b "),
        ({"source": "url", "url": "https://h.example/x.git"}, "git clone --depth 1 https://h.example/x.git "),
        (
            {"source": "git-subdir", "url": "a/b", "path": "tools/p"},
            "https://github.com/a/b and import its folder tools/p",
        ),
        ({"source": "archive", "url": "https://h.example/p.zip"}, "Download https://h.example/p.zip"),
        ({"source": "npm", "package": "@a/b"}, "Fetch it yourself"),
        ({"source": "command", "command": "rm -rf /"}, "Fetch it yourself"),
        ({}, "Fetch it yourself"),
        # What a shell, or git, would take for more than an address.
        ({"source": "url", "url": "https://h.example/x; rm -rf ~"}, "Fetch it yourself"),
        ({"source": "url", "url": "ext::sh -c id"}, "Fetch it yourself"),
        ({"source": "url", "url": "--upload-pack=id"}, "Fetch it yourself"),
        ({"source": "github", "repo": "a/b", "ref": "--upload-pack=id"}, "Fetch it yourself"),
        ({"source": "github", "repo": "$(id)"}, "Fetch it yourself"),
    ],
)
def test_how_to_fetch_what_is_elsewhere_is_said_in_words_that_are_safe_to_type(source, advice):
    [plugin] = read({"name": "p", "source": source}).plugins
    assert isinstance(plugin.source, ExternalPlugin)
    assert advice in plugin.source.advice


@pytest.mark.parametrize("path", ["$(id)", "a; id", "-o x", "a b"])
def test_a_folder_below_a_repository_is_named_only_when_it_is_safe_to_type(path):
    [plugin] = read({"name": "p", "source": {"source": "git-subdir", "url": "a/b", "path": path}}).plugins
    assert isinstance(plugin.source, ExternalPlugin)
    assert path not in plugin.source.advice


@pytest.mark.parametrize(
    "document", ["[]", "{}", '{"plugins": {}}', "null", '{"plugins": [], "metadata": {"pluginRoot": "../x"}}']
)
def test_what_is_no_marketplace_is_refused(document):
    with pytest.raises(ValidationError) as caught:
        read_marketplace(document.encode(), "marketplace.json")
    assert caught.value.code == "MARKETPLACE_FORM"


def test_plugins_are_bounded():
    assert len(read(*[{"name": "p", "source": "./p"}] * limits.MARKETPLACE_PLUGINS).plugins) == 2000
    with pytest.raises(ValidationError):
        read(*[{}] * (limits.MARKETPLACE_PLUGINS + 1))


@pytest.mark.parametrize(
    "entry", [None, "text", {}, {"name": 3, "source": "./a"}, {"name": "\x1b[31mred", "source": 1}]
)
def test_an_entry_that_cannot_be_read_is_said_without_commanding_the_terminal(entry):
    [finding] = read(entry).findings
    assert finding.message.isprintable()


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
