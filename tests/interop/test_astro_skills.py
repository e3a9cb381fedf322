"""Our client adds from a site that ``astro-skills`` of npm has built: a publisher that shares no code with ours."""

import io
import json
import shutil
import tarfile

import pytest
from tests.interop.hosting import plain_server
from tests.interop.peers import FOLDER, find_peer, run
from tests.interop.skill_samples import ALL_BYTES, copy_examples, write_samples
from tests.interop.trees import executables, trees

from skillwire.model.digest import Digest

pytestmark = pytest.mark.deep
WELL_KNOWN = ".well-known/agent-skills"
#: astro-skills leaves hidden files out.
LOST = {("all-bytes", ".config/settings.json")}
#: It takes a file for text unless it knows the ending, and text loses each byte that is not UTF-8.
DAMAGED = {("sqlite-query-review", "assets/shop.sqlite"), ("all-bytes", "assets/all.data")}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("astro") / "skills"
    copy_examples(folder)
    write_samples(folder)
    (folder / "all-bytes" / "assets" / "all.data").write_bytes(ALL_BYTES)
    (folder / "odd-names" / "references" / "100%.md").unlink()  # a percent sign in a name ends its build
    return folder


@pytest.fixture(scope="module")
def site(source):
    command = [*find_peer("astro"), "build"]
    folder = source.parent
    shutil.copytree(FOLDER / "astro-site", folder, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(FOLDER / "node_modules")
    run(command, cwd=folder, home=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def origin(site):
    with plain_server(site) as url:
        yield url


@pytest.fixture(scope="module")
def entries(site):
    return {entry["name"]: entry for entry in json.loads((site / WELL_KNOWN / "index.json").read_bytes())["skills"]}


@pytest.fixture(scope="module")
def wanted(source):
    """Give what arrives: everything but what the publisher itself has lost or damaged."""
    skills = trees(source)
    for name, path in LOST:
        del skills[name][path]
    for name, path in DAMAGED:
        skills[name][path] = skills[name][path].decode("utf-8", "replace").encode()
    return skills


def test_find_lists_every_skill(origin, entries, workplace):
    found = json.loads(workplace.skillwire("find", "--from", origin, "--limit", 100, "--json"))["hits"]
    assert {hit["name"]: (hit["description"], hit["digest"]) for hit in found} == {
        name: (entry["description"], entry["digest"]) for name, entry in entries.items()
    }
    best = json.loads(workplace.skillwire("find", "profile", "a", "csv", "--from", origin, "--json"))["hits"][0]
    assert best["name"] == "csv-profile"


def test_show_and_cat_give_what_is_in_the_archive(origin, wanted, workplace):
    files = json.loads(workplace.skillwire("show", f"{origin}/csv-profile", "--files", "--json"))["files"]
    assert {file["path"] for file in files} == wanted["csv-profile"].keys()
    printed = workplace.skillwire("cat", f"{origin}/csv-profile", "references/remedies.md")
    assert printed.encode() == wanted["csv-profile"]["references/remedies.md"]


def test_add_writes_every_byte_that_was_published(origin, source, wanted, workplace):
    workplace.skillwire("add", origin, "--all", "--yes", "-a", "codex")
    assert trees(workplace.installed) == wanted
    assert executables(source)
    assert executables(workplace.installed) == set()  # it publishes every file with mode 644
    workplace.skillwire("verify")
    workplace.skillwire("outdated")


def test_the_lock_holds_the_digest_of_the_index(origin, entries, workplace):
    workplace.skillwire("add", f"{origin}/csv-profile", "--yes", "-a", "codex")
    (locked,) = json.loads(workplace.skillwire("list", "--json"))["skills"]
    assert locked["digest"] == entries["csv-profile"]["digest"]


def test_check_finds_nothing_wrong_with_the_site(site, workplace):
    assert "no findings" in workplace.skillwire("check", site)


def test_what_the_publisher_wrote(site, entries):
    """Its digests are right, its archives have no wrapper, and long paths are in PAX headers."""
    for entry in entries.values():
        content = (site / entry["url"][1:]).read_bytes()
        assert Digest.of(content) == entry["digest"]
        if entry["type"] == "archive":
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                assert "SKILL.md" in archive.getnames()
