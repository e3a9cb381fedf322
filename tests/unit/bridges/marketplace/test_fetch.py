"""A marketplace at a URL: what its entries name and links lead to is fetched, from below its own place alone."""

import json

import pytest

from skillwire import limits
from skillwire.bridges.marketplace.gather import fetch_skills, marketplace_url
from skillwire.errors import FetchError, NotFoundError
from skillwire.wire.exchange import HttpResponse

URL = "https://shop.example/repo/.claude-plugin/marketplace.json"
SKILL = "---\nname: {name}\ndescription: Does something useful.\n---\n\n{body}\n"


class Site:
    """Answers from a table of paths, as a driver would; remembers what was asked for."""

    def __init__(self, files, *, root="https://shop.example/repo/"):
        self.files = {root + path: content for path, content in files.items()}
        self.asked = []

    def run(self, exchange):
        try:
            request = next(exchange)
            while True:
                self.asked.append(request.url)
                content = self.files.get(request.url)
                if isinstance(content, int):
                    response = HttpResponse(request.url, content, {}, b"")
                elif content is None:
                    response = HttpResponse(request.url, 404, {}, b"")
                else:
                    response = HttpResponse(request.url, 200, {}, content.encode())
                request = exchange.send(response)
        except StopIteration as stop:
            return stop.value


def site(*plugins, **files):
    document = json.dumps({"name": "shop", "owner": {"name": "Me"}, "plugins": list(plugins)})
    paths = {path.replace("__", "/"): content for path, content in files.items()}
    return Site({".claude-plugin/marketplace.json": document, **paths})


def test_the_url_of_a_place_means_its_marketplace():
    assert marketplace_url("https://shop.example/repo/") == URL
    assert marketplace_url(URL) == URL
    assert marketplace_url("https://shop.example") == "https://shop.example/.claude-plugin/marketplace.json"


def test_a_listed_skill_and_what_it_links_to():
    shop = site({"name": "p", "source": "./", "skills": ["./skills/a"]})
    shop.files |= {
        "https://shop.example/repo/skills/a/SKILL.md": SKILL.format(
            name="a", body="See [more](references/more.md), [not there](gone.md) and [out](../../secret.md)."
        ),
        "https://shop.example/repo/skills/a/references/more.md": "[script](../scripts/run%20it.sh)",
        "https://shop.example/repo/skills/a/scripts/run%20it.sh": "echo",
        "https://shop.example/repo/secret.md": "secret",
    }
    gathered = shop.run(fetch_skills(URL))
    assert {file.path for file in gathered.skills["a"].files} == {"SKILL.md", "references/more.md", "scripts/run it.sh"}
    assert [finding.code for finding in gathered.findings] == ["FILES_UNLISTED"]
    assert all(url.startswith("https://shop.example/repo/") for url in shop.asked)
    assert "https://shop.example/repo/secret.md" not in shop.asked


def test_the_manifest_of_a_plugin_names_skills_too():
    shop = site({"name": "p", "source": "./p"})
    shop.files |= {
        "https://shop.example/repo/p/.claude-plugin/plugin.json": '{"name": "p", "skills": ["./own/b"]}',
        "https://shop.example/repo/p/own/b/SKILL.md": SKILL.format(name="b", body="Do it."),
    }
    assert list(shop.run(fetch_skills(URL)).skills) == ["b"]


def test_what_cannot_be_fetched_is_told_and_the_others_are_taken():
    shop = site(
        {"name": "git", "source": {"source": "url", "url": "https://git.example/x.git"}},
        {"name": "unlisted", "source": "./unlisted"},
        {"name": "denied", "source": "./denied", "skills": ["./a"]},
        {"name": "good", "source": "./", "skills": ["./a"]},
    )
    shop.files |= {
        "https://shop.example/repo/denied/.claude-plugin/plugin.json": 500,
        "https://shop.example/repo/a/SKILL.md": SKILL.format(name="a", body="Do it."),
    }
    gathered = shop.run(fetch_skills(URL))
    assert list(gathered.skills) == ["a"]
    assert [finding.code for finding in gathered.findings] == [
        "PLUGIN_ELSEWHERE",
        "PLUGIN_WITHOUT_SKILLS",
        "PLUGIN_FORM",
        "FILES_UNLISTED",
    ]


@pytest.mark.parametrize(("status", "error"), [(404, NotFoundError), (403, FetchError), (500, FetchError)])
def test_without_the_document_there_is_nothing(status, error):
    with pytest.raises(error):
        Site({".claude-plugin/marketplace.json": status}).run(fetch_skills(URL))


def test_a_circle_of_links_ends():
    shop = site({"name": "p", "source": "./", "skills": ["./a"]})
    shop.files |= {
        "https://shop.example/repo/a/SKILL.md": SKILL.format(name="a", body="[b](b.md)"),
        "https://shop.example/repo/a/b.md": "[back](SKILL.md) [b](b.md)",
    }
    assert len(shop.run(fetch_skills(URL)).skills["a"].files) == 2
    assert len(shop.asked) == 4  # with the document and the plugin's manifest


def test_files_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MARKETPLACE_FILES", 6)
    links = " ".join(f"[{number}]({number}.md)" for number in range(50))
    shop = site({"name": "p", "source": "./", "skills": ["./a"]})
    shop.files["https://shop.example/repo/a/SKILL.md"] = SKILL.format(name="a", body=links)
    gathered = shop.run(fetch_skills(URL))
    assert len(shop.asked) == 6
    assert [finding.code for finding in gathered.findings] == ["PLUGIN_FORM"]
