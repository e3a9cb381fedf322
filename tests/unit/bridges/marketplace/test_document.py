"""What a ``marketplace.json`` says: real ones are read, and nothing that a hostile one says leads anywhere."""

import json

import pytest

from skillwire import limits
from skillwire.bridges.marketplace.documents import ExternalPlugin, read_marketplace, read_plugin_skills
from skillwire.errors import SkillwireError, ValidationError


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
