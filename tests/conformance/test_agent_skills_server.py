"""Agent Skills Discovery, what a publisher must do, asked of a real server: the mark names the clause."""

import hashlib
import http.client
import io
import json
import re
import shutil
import tarfile
from pathlib import Path
from urllib.parse import urljoin

import pytest
from tests.support.publishing import ServeProcess, serving

from skillwire.model.skill import is_skill_name

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
INDEX = "/.well-known/agent-skills/index.json"
OLD_INDEX = "/.well-known/skills/index.json"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills")
    for name in ("csv-profile", "git-commit-messages", "letter-docx"):
        shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with serving(folder, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def ask(address):
    connection = http.client.HTTPConnection(address, timeout=10)

    def ask(path, method="GET", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    yield ask
    connection.close()


@pytest.fixture
def index(ask):
    return json.loads(ask(INDEX)[2])


@pytest.fixture
def artifacts(ask, index):
    """Each entry with the answer to its URL."""
    return [(entry, ask(urljoin(INDEX, entry["url"]))) for entry in index["skills"]]


@pytest.mark.spec("ASD-server-index")
@pytest.mark.spec("ASD-server-media-types")
def test_the_index_is_json_at_the_well_known_path(ask):
    status, headers, body = ask(INDEX)
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert {entry["name"] for entry in json.loads(body)["skills"]} == {
        "csv-profile",
        "git-commit-messages",
        "letter-docx",
    }


@pytest.mark.spec("ASD-server-schema")
def test_the_index_names_its_schema(index):
    assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


@pytest.mark.spec("ASD-server-fields")
@pytest.mark.spec("ASD-server-names")
def test_every_entry_has_the_required_fields(index):
    for entry in index["skills"]:
        assert is_skill_name(entry["name"])
        assert entry["type"] in {"skill-md", "archive"}
        assert 1 <= len(entry["description"]) <= 1024
        assert entry["url"]


@pytest.mark.spec("ASD-server-digest")
def test_the_digest_is_that_of_the_raw_bytes(artifacts):
    for entry, (status, headers, body) in artifacts:
        assert status == 200
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", entry["digest"])
        assert entry["digest"] == f"sha256:{hashlib.sha256(body).hexdigest()}"
        assert "content-encoding" not in headers


@pytest.mark.spec("ASD-server-digest")
def test_an_artifact_is_never_encoded_even_for_who_accepts_it(ask, index):
    for entry in index["skills"]:
        _, headers, body = ask(urljoin(INDEX, entry["url"]), Accept_Encoding="gzip, br")
        assert "content-encoding" not in headers
        assert hashlib.sha256(body).hexdigest() == entry["digest"].removeprefix("sha256:")


@pytest.mark.spec("ASD-server-archive")
@pytest.mark.spec("ASD-server-type")
@pytest.mark.spec("ASD-server-media-types")
def test_a_skill_of_several_files_is_an_archive_with_files_at_its_root(artifacts):
    types = {entry["name"]: entry["type"] for entry, _ in artifacts}
    assert types == {"csv-profile": "archive", "git-commit-messages": "skill-md", "letter-docx": "archive"}
    for entry, (_, headers, body) in artifacts:
        if entry["type"] == "skill-md":
            assert headers["content-type"].partition(";")[0] in {"text/markdown", "text/plain"}
            continue
        assert headers["content-type"] == "application/gzip"
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            names = archive.getnames()
        folder = EXAMPLES / entry["name"]
        assert "SKILL.md" in names
        assert set(names) == {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


@pytest.mark.spec("ASD-server-methods")
@pytest.mark.parametrize("path", [INDEX, OLD_INDEX, "/.well-known/agent-skills/csv-profile/SKILL.md"])
def test_head_answers_as_get_without_the_body(ask, path):
    status, headers, body = ask(path)
    head_status, head_headers, nothing = ask(path, "HEAD")
    assert (head_status, nothing) == (status, b"")
    assert int(head_headers["content-length"]) == len(body)
    assert head_headers["etag"] == headers["etag"]


@pytest.mark.spec("ASD-server-methods")
def test_another_method_is_405_and_says_which_are_allowed(ask):
    status, headers, body = ask(INDEX, "DELETE")
    assert status == 405
    assert "GET" in headers["allow"]
    assert json.loads(body)["error"]["code"]


@pytest.mark.spec("ASD-server-absent")
@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/agent-skills/none/SKILL.md",
        "/.well-known/agent-skills/csv-profile/none.md",
        "/.well-known/agent-skills/csv-profile/..%2f..%2fetc/passwd",
        "/.well-known/agent-skills/csv-profile/",
        "/.well-known/agent-skills/sha256/" + "0" * 64 + ".md",
        "/@none/.well-known/agent-skills/index.json",
        "/none",
    ],
)
def test_what_is_absent_is_404_as_json(ask, path):
    status, headers, body = ask(path)
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["code"]


@pytest.mark.spec("ASD-server-cache")
def test_lists_are_brief_and_artifacts_by_digest_are_for_ever(ask, index):
    assert "max-age=60" in ask(INDEX)[1]["cache-control"]
    for entry in index["skills"]:
        assert "immutable" in ask(urljoin(INDEX, entry["url"]))[1]["cache-control"]


@pytest.mark.spec("ASD-server-cors")
@pytest.mark.parametrize("option", ["--base-url", "--config"])
def test_browsers_may_read_what_is_published_from_anywhere(option, tmp_path):
    (tmp_path / "server.toml").write_text('[http]\ntrusted_proxies = ["127.0.0.1"]\n')
    values = {"--base-url": "https://skills.example.com", "--config": tmp_path / "server.toml"}
    with ServeProcess(EXAMPLES, option, values[option], home=tmp_path / "home") as server:
        for origin in ({}, {"Origin": "https://x.example"}):
            assert server.get(INDEX, origin).fields["access-control-allow-origin"] == "*"
        preflight = {"Origin": "https://x.example", "Access-Control-Request-Method": "GET"}
        answer = server.get(INDEX, preflight, method="OPTIONS")
    assert answer.status in {200, 204}
    assert answer.fields["access-control-allow-origin"] == "*"
    assert "GET" in answer.fields["access-control-allow-methods"]


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_pages_of_other_sites_may_not_read_what_is_for_this_machine_alone(ask, method):
    for origin in ({}, {"Origin": "https://x.example"}):
        assert "access-control-allow-origin" not in ask(INDEX, method, **origin)[1]
    assert (
        ask(INDEX, method, Origin="http://localhost:3000")[1]["access-control-allow-origin"] == "http://localhost:3000"
    )


@pytest.mark.spec("ASD-server-etag")
@pytest.mark.parametrize("encoding", ["identity", "gzip", "br"])
def test_who_has_the_index_is_told_so(ask, encoding):
    _, headers, _ = ask(INDEX, Accept_Encoding=encoding)
    assert re.fullmatch(r'"[^"]+"', headers["etag"]), "strong"
    status, again, body = ask(INDEX, Accept_Encoding=encoding, If_None_Match=headers["etag"])
    assert (status, body) == (304, b"")
    assert again["etag"] == headers["etag"]
    assert ask(INDEX, Accept_Encoding=encoding, If_None_Match='"other"')[0] == 200


@pytest.mark.spec("ASD-server-old-index")
def test_old_clients_find_the_old_index_and_its_files_at_both_prefixes(ask, index):
    status, _, body = ask(OLD_INDEX)
    assert status == 200
    old = json.loads(body)
    assert set(old) == {"skills"}
    for entry in old["skills"]:
        assert set(entry) == {"name", "description", "files"}
        assert entry["files"][0] == "SKILL.md"
        for path in entry["files"]:
            expected = (EXAMPLES / entry["name"] / path).read_bytes()
            for prefix in ("/.well-known/skills", "/.well-known/agent-skills"):
                assert ask(f"{prefix}/{entry['name']}/{path}")[2] == expected
    assert [entry["files"] for entry in index["skills"]] == [entry["files"] for entry in old["skills"]]


@pytest.mark.spec("ASD-server-old-index")
def test_an_encoded_slash_in_a_file_path_is_a_slash(ask):
    plain = ask("/.well-known/skills/csv-profile/scripts/csv_profile.py")
    encoded = ask("/.well-known/skills/csv-profile/scripts%2Fcsv_profile.py")
    assert plain[0] == encoded[0] == 200
    assert plain[2] == encoded[2]


@pytest.mark.spec("ASD-server-scopes")
def test_a_scope_is_an_index_of_one_skill_whose_urls_work(ask):
    scoped = "/@csv-profile/.well-known/agent-skills/index.json"
    status, _, body = ask(scoped)
    assert status == 200
    (entry,) = json.loads(body)["skills"]
    assert entry["name"] == "csv-profile"
    assert f"sha256:{hashlib.sha256(ask(urljoin(scoped, entry['url']))[2]).hexdigest()}" == entry["digest"]
