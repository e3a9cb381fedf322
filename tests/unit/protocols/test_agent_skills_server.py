"""What is answered where: paths to answers, and answers to paths."""

import json
from urllib.parse import urljoin

import pytest
from tests.support.catalogs import make_catalog, make_skill

from skillwire.errors import ValidationError
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.url import check_base_url
from skillwire.protocols.agent_skills.decoder import decode_index
from skillwire.protocols.agent_skills.messages import SCHEMA_URI, IndexEntry, media_type
from skillwire.protocols.agent_skills.server import (
    INDEX_PATH,
    BlobResponse,
    CachePolicy,
    IndexResponse,
    Site,
    VersionsResponse,
    encode_index,
    encode_indexes,
)

NOTES = make_skill("notes")
TOOLS = make_skill("tools", "scripts/run.sh", "references/with space.md", "assets/page.html", scenes=("auth",))
OTHER = make_skill("other", "a.md", publisher="someone-else")
SITE = Site(make_catalog(NOTES, TOOLS, OTHER))
ARCHIVE = f"/.well-known/agent-skills/sha256/{TOOLS.artifact.digest.hex}.tar.gz"


def document(path, site=SITE):
    answer = site.lookup(path)
    assert isinstance(answer, IndexResponse)
    return json.loads(answer.encode())


def stored(path, site=SITE):
    answer = site.lookup(path)
    assert isinstance(answer, BlobResponse)
    return answer


def names(path, site=SITE):
    return None if site.lookup(path) is None else [entry["name"] for entry in document(path, site)["skills"]]


def test_the_indexes_list_every_skill_by_name():
    everything = ["notes", "other", "tools"]
    assert names("/.well-known/agent-skills/index.json") == everything
    assert names("/.well-known/skills/index.json") == everything


@pytest.mark.parametrize("base_url", ["", "https://cdn.example/skills"])
def test_listings_that_are_encoded_together_have_the_bytes_of_each_alone(base_url):
    hostile = make_skill("hostile")._replace(description='"url":"\0sha256/, and "url":"\\u0000sha256/')
    site = Site(make_catalog(NOTES, TOOLS, OTHER, hostile), base_url)
    listings = [answer for path in site.listing_paths() if isinstance(answer := site.lookup(path), IndexResponse)]
    alone = [listing.encode() for listing in listings]
    assert len(set(alone)) > 2
    assert list(encode_indexes(listings)) == alone


def test_the_index_has_the_fields_of_both_generations():
    index = document("/.well-known/agent-skills/index.json")
    assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    assert index["skills"][2] == {
        "name": "tools",
        "type": "archive",
        "description": "Does tools.",
        "url": ARCHIVE.removeprefix("/.well-known/agent-skills/"),
        "digest": TOOLS.artifact.digest,
        "version": "1.0.0",
        "scenes": ["auth"],
        "files": ["SKILL.md", "scripts/run.sh", "references/with space.md", "assets/page.html"],
    }


def test_the_old_index_has_the_fields_of_its_generation_and_no_more():
    index = document("/.well-known/skills/index.json")
    assert index.keys() == {"skills"}
    assert index["skills"][0] == {"name": "notes", "description": "Does notes.", "files": ["SKILL.md"]}


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/agent-skills/index.json",
        "/@tools/.well-known/agent-skills/index.json",
        "/@acme/.well-known/agent-skills/index.json",
        "/.well-known/agent-skills/.well-known/agent-skills/index.json",
        "/.well-known/agent-skills/index.json/.well-known/agent-skills/index.json",
        "/@tools/.well-known/skills/.well-known/agent-skills/index.json",
    ],
)
@pytest.mark.parametrize("mount", ["https://h.example", "https://h.example/deep/er"])
def test_the_urls_of_an_index_lead_to_the_artifact_from_wherever_it_was_found(path, mount):
    [url] = [entry["url"] for entry in document(path)["skills"] if entry["name"] == "tools"]
    assert urljoin(mount + path, url) == mount + ARCHIVE


@pytest.mark.parametrize("path", ["/@tools/versions.json", "/@acme/tools/versions.json"])
def test_the_versions_of_a_skill_name_its_artifact(path):
    answer = SITE.lookup(path)
    assert isinstance(answer, VersionsResponse)
    found = json.loads(answer.encode())
    [version] = found.pop("versions")
    assert found == {"publisher": "acme", "name": "tools", "latest": "1.0.0", "status": {"status": "active"}}
    assert urljoin("https://h.example/x" + path, version.pop("url")) == "https://h.example/x" + ARCHIVE
    assert version == {
        "version": "1.0.0",
        "type": "archive",
        "description": "Does tools.",
        "digest": TOOLS.artifact.digest,
        "size": TOOLS.artifact.size,
        "status": {"status": "active"},
        "scenes": ["auth"],
    }


def test_a_scope_may_be_a_version_and_a_skill_of_a_publisher():
    index = "/.well-known/agent-skills/index.json"
    for scope in ("@tools@1.0.0", "@acme/tools", "@acme/tools@1.0.0", "@someone-else@1.0.0"):
        assert names(f"/{scope}{index}") == ["other" if scope.startswith("@some") else "tools"]
    for scope in ("@tools@1.0.1", "@acme@1.0.0", "@acme/other", "@auth/tools", "@acme/tools/x", "@tools@", "@@1.0.0"):
        assert SITE.lookup(f"/{scope}{index}") is None
    for path in ("/versions.json", "/@acme/versions.json", "/@auth/versions.json", "/@nothing/versions.json"):
        assert SITE.lookup(path) is None


def test_a_base_url_makes_the_urls_absolute():
    site = Site(make_catalog(TOOLS), "https://cdn.example/x")
    for path in ("/.well-known/agent-skills/index.json", "/@tools/.well-known/agent-skills/index.json"):
        [entry] = document(path, site)["skills"]
        assert entry["url"] == f"https://cdn.example/x{ARCHIVE}"


def test_artifacts_are_found_by_digest_for_ever_and_by_name_for_now():
    artifact = TOOLS.artifact
    assert SITE.lookup(ARCHIVE) == BlobResponse("application/gzip", CachePolicy.FOREVER, artifact.digest, artifact.size)
    by_name = SITE.lookup("/.well-known/agent-skills/tools.tar.gz")
    assert by_name == BlobResponse("application/gzip", CachePolicy.BRIEF, artifact.digest, artifact.size)
    single = SITE.lookup(f"/.well-known/agent-skills/sha256/{NOTES.artifact.digest.hex}.md")
    assert single == BlobResponse(
        "text/markdown; charset=utf-8", CachePolicy.FOREVER, NOTES.artifact.digest, NOTES.artifact.size
    )


@pytest.mark.parametrize(
    "path",
    [
        ARCHIVE.replace(".tar.gz", ".zip"),
        ARCHIVE.replace(".tar.gz", ".md"),
        ARCHIVE.upper(),
        f"/.well-known/agent-skills/sha256/{TOOLS.files[1].digest.hex}.md",
        "/.well-known/agent-skills/sha256/" + "0" * 64 + ".md",
        "/.well-known/agent-skills/tools.zip",
        "/.well-known/agent-skills/tools.md",
        "/.well-known/agent-skills/notes.md",
        "/.well-known/agent-skills/notes.tar.gz",
        "/.well-known/agent-skills/tools",
        "/.well-known/agent-skills/tools/",
        "/.well-known/agent-skills/tools/scripts",
        "/.well-known/agent-skills/tools/scripts/",
        "/.well-known/agent-skills/tools//SKILL.md",
        "/.well-known/agent-skills/tools/./SKILL.md",
        "/.well-known/agent-skills/tools/../tools/SKILL.md",
        "/.well-known/agent-skills/tools/SKILL.md/",
        "/.well-known/agent-skills/Tools/SKILL.md",
        "/.well-known/agent-skills/tools/skill.md",
        "/.well-known/agent-skills",
        "/.well-known/agent-skills/",
        "/.well-known/agent-skills/index.json/",
        "/.well-known/index.json",
        "//.well-known/agent-skills/index.json",
        "/.well-known/agent-skills/index.json\n",
        "/@/.well-known/agent-skills/index.json",
        "/@nobody/.well-known/agent-skills/index.json",
        "/@tools",
        "/@tools/",
        "/@tools/.well-known/agent-skills/notes/SKILL.md",
        "/@auth/.well-known/agent-skills/notes/SKILL.md",
        "/tools/.well-known/agent-skills/index.json",
        "",
        "/",
    ],
)
def test_every_other_path_is_nothing(path):
    assert SITE.lookup(path) is None


@pytest.mark.parametrize("prefix", ["agent-skills", "skills"])
@pytest.mark.parametrize("scope", ["", "/@tools", "/@acme", "/@auth"])
@pytest.mark.parametrize("file", TOOLS.files, ids=lambda file: file.path)
def test_files_are_found_under_both_prefixes_and_below_every_scope_that_has_their_skill(prefix, scope, file):
    answer = SITE.lookup(f"{scope}/.well-known/{prefix}/tools/{file.path}")
    assert answer == BlobResponse(media_type(file.path), CachePolicy.BRIEF, file.digest, file.size)


@pytest.mark.parametrize(
    ("scope", "members"),
    [("tools", ["tools"]), ("acme", ["notes", "tools"]), ("someone-else", ["other"]), ("auth", ["tools"])],
)
def test_a_scope_is_a_skill_a_publisher_or_a_scene(scope, members):
    assert names(f"/@{scope}/.well-known/agent-skills/index.json") == members
    assert names(f"/@{scope}/.well-known/skills/index.json") == members


def test_a_skill_of_a_scopes_name_goes_before_a_publisher_and_that_before_a_scene():
    shared = make_skill("shared", publisher="acme", scenes=("pub",))
    skill = Site(make_catalog(shared, make_skill("one", publisher="shared"), make_skill("two", publisher="pub")))
    assert names("/@shared/.well-known/agent-skills/index.json", skill) == ["shared"]
    assert names("/@pub/.well-known/agent-skills/index.json", skill) == ["two"]


def test_a_scope_that_could_be_read_as_a_path_is_none():
    site = Site(make_catalog(make_skill("one", publisher="a/b", scenes=("../x",))))
    assert names("/@a/b/.well-known/agent-skills/index.json", site) is None
    assert not [path for path in site.paths() if "@a" in path or ".." in path]


def test_an_empty_catalog_has_indexes_and_nothing_else():
    site = Site(make_catalog())
    assert names("/.well-known/agent-skills/index.json", site) == []
    assert names("/.well-known/skills/index.json", site) == []
    assert site.lookup("/@acme/.well-known/agent-skills/index.json") is None


@pytest.mark.parametrize(
    "path", ["a b.md", "a#b.md", "a?b.md", "a[1].md", "a\\b.md", "100%.md", "日本.md", "a..b.md", "a\x7fb"]
)
def test_a_file_that_an_old_client_cannot_ask_for_keeps_the_skill_out_of_the_old_index_alone(path):
    site = Site(make_catalog(NOTES, make_skill("odd", path)))
    plain = path == "a b.md"
    assert names("/.well-known/skills/index.json", site) == (["notes", "odd"] if plain else ["notes"])
    odd = document("/.well-known/agent-skills/index.json", site)["skills"][1]
    assert ("files" in odd) is plain
    assert site.lookup(f"/.well-known/agent-skills/odd/{path}") is not None


def test_a_digest_url_means_the_artifact_even_when_a_skill_has_such_a_file():
    hostile = make_skill("sha256", f"{NOTES.artifact.digest.hex}.md", "0" * 64 + ".md")
    site = Site(make_catalog(NOTES, hostile))
    assert stored(f"/.well-known/agent-skills/sha256/{NOTES.artifact.digest.hex}.md", site).size == NOTES.artifact.size
    assert site.lookup("/.well-known/agent-skills/sha256/" + "0" * 64 + ".md") is None
    assert len(list(site.paths())) == len(set(site.paths()))
    assert stored("/.well-known/agent-skills/sha256/SKILL.md", site).digest == hostile.files[0].digest


def test_superseded_artifacts_are_found_by_digest_alone():
    old = make_skill("tools", "scripts/run.sh", content="0").artifact
    site = Site(make_catalog(TOOLS), superseded=[old])
    path = f"/.well-known/agent-skills/sha256/{old.digest.hex}.tar.gz"
    assert site.lookup(path) == BlobResponse("application/gzip", CachePolicy.FOREVER, old.digest, old.size)
    assert stored("/.well-known/agent-skills/tools.tar.gz", site).digest == TOOLS.artifact.digest
    assert path not in set(site.paths())


def test_every_path_of_a_static_site_is_answered_the_indexes_last():
    paths = list(SITE.paths())
    assert len(paths) == len(set(paths))
    answers = [SITE.lookup(path) for path in paths]
    assert None not in answers
    stored = {answer.digest for answer in answers if isinstance(answer, BlobResponse)}
    assert stored == {
        digest
        for skill in (NOTES, TOOLS, OTHER)
        for digest in (skill.artifact.digest, *(f.digest for f in skill.files))
    }
    assert paths[-1] == "/.well-known/agent-skills/index.json"
    assert {path for path in paths if path.startswith("/@") and path.endswith("agent-skills/index.json")} == {
        f"/@{scope}/.well-known/agent-skills/index.json"
        for scope in ("notes", "tools", "other", "acme", "someone-else", "auth")
    }


def test_what_an_old_index_of_a_static_site_lists_is_in_the_site():
    paths = set(SITE.paths())
    for index in [path for path in paths if path.endswith("/skills/index.json")]:
        for entry in document(index)["skills"]:
            for file in entry["files"]:
                assert f"{index.removesuffix('index.json')}{entry['name']}/{file}" in paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("SKILL.md", "text/markdown; charset=utf-8"),
        ("references/A.MD", "text/markdown; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.tar.gz", "application/gzip"),
        ("a.gz", "application/gzip"),
        ("a.zip", "application/zip"),
        ("scripts/run.py", "text/plain; charset=utf-8"),
        ("page.html", "text/plain; charset=utf-8"),
        ("page.xhtml", "text/plain; charset=utf-8"),
        ("image.svg", "text/plain; charset=utf-8"),
        ("feed.xml", "text/plain; charset=utf-8"),
        ("code.js", "text/plain; charset=utf-8"),
        ("picture.png", "image/png"),
        ("LICENSE", "text/plain; charset=utf-8"),
        ("Makefile", "text/plain; charset=utf-8"),
        ("a.swf", "application/octet-stream"),
        ("unknown", "application/octet-stream"),
        (".html", "application/octet-stream"),
        ("html", "application/octet-stream"),
        ("x.html/y", "application/octet-stream"),
    ],
)
def test_no_file_of_a_skill_has_a_type_that_a_browser_executes(path, expected):
    assert media_type(path) == expected


def test_an_empty_url_is_not_the_index_itself():
    entry = {"name": "a", "type": "skill-md", "description": "d", "url": "", "digest": f"sha256:{'0' * 64}"}
    found = decode_index(json.dumps({"$schema": SCHEMA_URI, "skills": [entry]}).encode(), "https://a.example/i.json")
    assert (found.entries, [one.code for one in found.findings]) == ({}, ["URL"])


def test_a_base_url_is_taken_in_its_one_written_form():
    assert check_base_url(None) == ""
    assert check_base_url("") == ""
    assert check_base_url("HTTPS://Example.com:443/") == "https://example.com"
    assert check_base_url("https://example.com/skills/") == "https://example.com/skills"
    for wrong in ("example.com", "ftp://example.com", "https://example.com/?a=b", "https://user@example.com"):
        with pytest.raises(ValidationError) as raised:
            check_base_url(wrong)
        assert raised.value.code == "URL"


def test_site_on_another_answers_as_one_that_was_made_alone():
    skills = [
        make_skill("a", "x.txt", scenes=("auth",)),
        make_skill("b", publisher="other"),
        make_skill("c", "y.txt", scenes=("auth", "office")),
        make_skill("d", scenes=("office",), publisher="third"),
    ]
    part, whole = Catalog.of(skills[:2]), Catalog.of(skills)
    below = Site(part, superseded=[skills[3].artifact])
    alone, stacked = Site(whole, superseded=[skills[3].artifact]), Site(whole, below=below)
    assert stacked.names == alone.names
    assert list(stacked.paths()) == list(alone.paths())
    scopes = [f"/@{scope}{INDEX_PATH}" for scope in ("auth", "office", "acme", "other", "third", "a", "none")]
    for path in [*alone.paths(), *scopes]:
        answers = [site.lookup(path) for site in (alone, stacked)]
        encoded = [answer.encode() if isinstance(answer, IndexResponse) else answer for answer in answers]
        assert encoded[0] == encoded[1], path


BASE = "https://skills.example.com/.well-known/agent-skills/"
ENTRY = IndexEntry("staff", "Find people.", "skill-md", f"{BASE}staff.md", Digest.of(b"x"))


def read(data):
    [entry] = decode_index(data, f"{BASE}index.json").entries.values()
    return entry.capabilities, entry.scenes


def test_the_names_come_back():
    said = ENTRY._replace(capabilities=("org-data-read", "user-auth"), scenes=("auth",))
    assert read(encode_index([said])) == (("org-data-read", "user-auth"), ("auth",))
    assert b"scenes" not in encode_index([ENTRY])


@pytest.mark.parametrize("odd", ["auth", 7, None, {"auth": 1}, ["x"] * 1001, []])
def test_what_somebody_else_means_by_it_is_nothing(odd):
    document = json.loads(encode_index([ENTRY]))
    document["skills"][0] |= {"scenes": odd, "capabilities": [odd, "two words", "é", "well-formed"]}
    capabilities, scenes = read(json.dumps(document).encode())
    assert scenes == ()
    assert capabilities == (("auth", "well-formed") if odd == "auth" else ("well-formed",))
