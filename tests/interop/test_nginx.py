"""A built site behind nginx whose operator compresses everything: what arrives is what was built."""

import gzip
import json
from urllib.parse import quote

import pytest
from tests.interop.hosting import Nginx, get
from tests.interop.peers import find_peer
from tests.interop.skill_samples import copy_examples, write_samples
from tests.interop.trees import executables, trees

from skillwire.model.digest import Digest

WELL_KNOWN = "/.well-known/agent-skills/"
INDEXES = (f"{WELL_KNOWN}index.json", "/.well-known/skills/index.json", f"/@csv-profile{WELL_KNOWN}index.json")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    find_peer("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    copy_examples(folder / "skills")
    write_samples(folder / "skills")
    with Nginx(folder / "skills", folder / "work") as publisher:
        yield publisher


@pytest.fixture(scope="module")
def entries(site):
    return json.loads(get(site.url + INDEXES[0]).body)["skills"]


def test_artifacts_come_as_they_were_built(site, entries):
    types = {"skill-md": {"text/markdown; charset=utf-8"}, "archive": {"application/gzip", "application/zip"}}
    seen = set()
    for entry in entries:
        answer = get(f"{site.url}{WELL_KNOWN}{entry['url']}", accept_encoding="gzip, br")
        assert answer.status == 200
        assert Digest.of(answer.body) == entry["digest"]
        assert "content-encoding" not in answer.headers
        assert answer.headers["content-type"] in types[entry["type"]]
        assert "immutable" in answer.headers["cache-control"]
        seen.add(answer.headers["content-type"])
    assert seen == set().union(*types.values())


def test_archives_under_their_name_come_as_they_were_built(site, entries):
    digests = {entry["name"]: entry["digest"] for entry in entries}
    for name, extension in (("csv-profile", ".tar.gz"), ("long-paths", ".zip")):
        answer = get(f"{site.url}{WELL_KNOWN}{name}{extension}", accept_encoding="gzip, br")
        assert Digest.of(answer.body) == digests[name]
        assert "content-encoding" not in answer.headers
        assert "immutable" not in answer.headers["cache-control"]


@pytest.mark.parametrize("path", INDEXES)
def test_an_index_is_json_in_both_codings(site, path):
    plain, packed = get(site.url + path), get(site.url + path, accept_encoding="gzip")
    for answer in (plain, packed):
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "max-age" in answer.headers["cache-control"]
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body == (site.site / path[1:]).read_bytes()


def test_an_index_is_not_sent_twice(site):
    first = get(site.url + INDEXES[0])
    assert get(site.url + INDEXES[0], if_none_match=first.headers["etag"]).status == 304


def test_every_file_of_every_skill_is_there_and_no_page_runs(site):
    for name, files in trees(site.folder).items():
        for path, content in files.items():
            for base in (WELL_KNOWN, "/.well-known/skills/"):
                answer = get(f"{site.url}{base}{name}/{quote(path)}", accept_encoding="gzip")
                assert answer.status == 200, path
                body = gzip.decompress(answer.body) if "content-encoding" in answer.headers else answer.body
                assert body == content
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert not answer.headers["content-type"].startswith(("text/html", "image/svg", "application/xhtml"))


def test_get_and_head_agree_and_what_is_absent_is_404(site, entries):
    for path in (*INDEXES, WELL_KNOWN + entries[0]["url"]):
        head = get(site.url + path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(get(site.url + path).body))
    for path in (
        f"{WELL_KNOWN}absent/SKILL.md",
        f"{WELL_KNOWN}sha256/{'0' * 64}.tar.gz",
        f"/@absent{WELL_KNOWN}index.json",
    ):
        assert get(site.url + path).status == 404


def test_our_client_adds_everything(site, workplace):
    workplace.skillwire("add", site.url, "--all", "--yes", "-a", "codex")
    assert trees(workplace.installed) == trees(site.folder)
    assert executables(workplace.installed) == executables(site.folder)
    workplace.skillwire("verify")
    workplace.skillwire("outdated")


@pytest.mark.parametrize("end", ["", "/files", ".html"])
def test_a_page_comes_at_its_address_beside_the_folder_of_its_name(site, end):
    answer = get(f"{site.url}/skills/csv-profile{end}")
    assert (answer.status, b"csv-profile" in answer.body) == (200, True)


def test_an_unknown_page_is_not_found(site):
    assert get(f"{site.url}/skills/unknown").status == 404
