"""The configurations on the page about nginx, run by nginx as they stand there but for addresses and paths."""

import contextlib
import gzip
import http.client
import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop.fronts import Front
from tests.interop.hosting import Serve
from tests.interop.peers import PATIENCE, find_peer, run, skillwire
from tests.interop.skill_samples import copy_examples
from tests.support.command import run_command
from tests.support.invoking import write_action
from tests.support.publishing import ServeProcess, write_skill

from skillwire.model.digest import Digest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "behind-nginx.md"
ADDRESS = "https://skills.example.com"
INDEX = "/.well-known/agent-skills/index.json"
WELL_KNOWN = "/.well-known/agent-skills/"


def shown(title):
    """Return the box of the page with this title."""
    [box] = re.findall(rf'^```nginx title="{re.escape(title)}"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return box


def in_front():
    return shown("nginx-servers.conf") + shown("nginx.conf")


def backends(server):
    return {f"127.0.0.1:{port}": server.url.removeprefix("http://") for port in (8001, 8002, 8003)}


@pytest.fixture(scope="module")
def skills(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills") / "skills"
    copy_examples(folder)
    write_action(folder, "ask-somebody", tables='[executor]\nkind = "human"\n')
    return folder


@pytest.fixture(scope="module")
def proxied(skills, tmp_path_factory):
    """nginx in front of a live server, and that server."""
    find_peer("nginx")
    work = tmp_path_factory.mktemp("proxied")
    [config] = re.findall(r"^```toml .*?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (work / "server.toml").write_text(config + "\n[rpc]\nrun_code = true\n")
    with Serve(skills, work / "serve", "--config", work / "server.toml") as server:
        changes = {**backends(server), "/var/cache/nginx-skills": str(work / "cache")}
        with Front(in_front(), changes, work / "nginx") as nginx:
            yield nginx, server


@pytest.fixture(scope="module")
def built(skills, tmp_path_factory):
    """nginx over a built site, and the site."""
    find_peer("nginx")
    work = tmp_path_factory.mktemp("built")
    site = work / "site"
    run(skillwire("build", skills, "-o", site, "--host-files", "nginx"), cwd=work, home=work)
    [command] = re.findall(r"^\$ (find .*)$", PAGE.read_text(), re.MULTILINE)
    run(["sh", "-c", command.replace("/srv/site", str(site))], cwd=work, home=work)
    with Front(shown("/etc/nginx/conf.d/site.conf"), {"/srv/site": str(site)}, work / "nginx") as nginx:
        yield nginx, site


@pytest.fixture(params=["proxied", "built"])
def nginx(request):
    return request.getfixturevalue(request.param)[0]


def test_an_index_comes_in_both_codings_and_not_twice(nginx):
    plain, packed = nginx.get(INDEX), nginx.get(INDEX, accept_encoding="gzip")
    assert (plain.status, packed.headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(packed.body) == plain.body
    assert len(json.loads(plain.body)["skills"]) > 10
    for answer in (plain, packed):
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "accept-encoding" in answer.headers["vary"].lower()
        assert "immutable" not in answer.headers["cache-control"]
    assert nginx.get(INDEX, if_none_match=plain.headers["etag"]).status == 304


def test_artifacts_come_as_promised_to_whoever_takes_any_coding(nginx):
    for entry in json.loads(nginx.get(INDEX).body)["skills"]:
        for _ in range(2):  # the second time from what nginx keeps
            answer = nginx.get(f"{WELL_KNOWN}{entry['url']}", accept_encoding="gzip, br")
            assert answer.status == 200
            assert "immutable" in answer.headers["cache-control"]
            if "content-encoding" in answer.headers:
                assert (entry["type"], answer.headers["content-encoding"]) == ("skill-md", "gzip")
                answer = answer._replace(body=gzip.decompress(answer.body))
            assert Digest.of(answer.body) == entry["digest"]


def test_what_is_absent_is_404_and_what_is_ours_alone_is_not_shown(nginx):
    for path in (
        f"{WELL_KNOWN}absent/SKILL.md",
        "/@absent/.well-known/agent-skills/index.json",
        "/.skillwire-manifest",
    ):
        assert nginx.get(path).status == 404
    head = nginx.get(INDEX, method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_nginx_answers_from_what_it_keeps_while_the_server_stands_still(proxied):
    nginx, server = proxied
    before = nginx.get("/.well-known/skills/index.json")
    server._process.send_signal(signal.SIGSTOP)
    try:
        assert nginx.get("/.well-known/skills/index.json").body == before.body
    finally:
        server._process.send_signal(signal.SIGCONT)


def test_an_artifact_in_quarantine_is_refused_once_the_cache_is_purged_as_the_page_says(tmp_path):
    find_peer("nginx")
    [purge] = re.findall(r"^\$ (rm .*)$", PAGE.read_text(), re.MULTILINE)
    changes = {"/var/cache/nginx-skills": str(tmp_path / "cache")}
    with ServeProcess("--registry", "--base-url", ADDRESS, home=tmp_path / "server") as server:
        variables = {"SKILLWIRE_HOME": str(tmp_path / "server"), "SKILLWIRE_REGISTRY": f"http://{server.origin}"}
        secret = run_command("registry", "init", "ann", "--quiet", env=variables).out.strip()
        variables["SKILLWIRE_TOKENS"] = f"http://{server.origin}={secret}"
        published = run_command("publish", write_skill(tmp_path / "skills", "notes"), env=variables)
        assert published.code == 0, published.err
        changes |= {f"127.0.0.1:{port}": server.origin for port in (8001, 8002, 8003)}
        with Front(in_front(), changes, tmp_path / "nginx") as nginx:
            [entry] = json.loads(nginx.get(f"/@ann{INDEX}").body)["skills"]
            path = f"/@ann{WELL_KNOWN}{entry['url']}"
            assert nginx.get(path).status == 200
            status = ("registry", "status", "ann/notes", "quarantined", "--reason", "steals keys")
            assert run_command(*status, env=variables).code == 0
            assert nginx.get(path).status == 200, "it is immutable to a cache"
            run(
                ["sh", "-c", purge.replace("/var/cache/nginx-skills", str(tmp_path / "cache"))],
                cwd=tmp_path,
                home=tmp_path,
            )
            assert nginx.get(path).status == 403


def test_who_has_seen_a_change_is_answered_by_a_server_and_not_from_the_cache(proxied):
    def answered():
        [number] = re.findall(rb'^skillwire_requests_total{route="index",status="200"} (.*)$', metrics(), re.MULTILINE)
        return float(number)

    def metrics():
        return nginx.get("/metrics").body

    nginx, _ = proxied
    nginx.get(INDEX)
    before = answered()
    assert (nginx.get(INDEX).status, answered()) == (200, before)
    assert (nginx.get(INDEX, skillwire_revision="1").status, answered()) == (200, before + 1)


def test_who_follows_a_call_is_waited_for_and_not_held_back(proxied):
    nginx, _ = proxied
    call = {"caller": {"id": "me", "type": "user"}, "skill_id": "local/ask-somebody", "inputs": {}}
    accepted = nginx.get(
        "/skills/ask-somebody/executions", method="POST", body=json.dumps(call), content_type="application/json"
    )
    assert accepted.status == 202
    assert accepted.headers["location"].startswith("https://skills.example.com/executions/exec-")
    path = accepted.headers["location"].removeprefix("https://skills.example.com")
    tag = nginx.get(path).headers["etag"]
    with ThreadPoolExecutor() as threads, contextlib.ExitStack() as stack:
        waiting = [threads.submit(nginx.get, path, if_none_match=tag, prefer="wait=20") for _ in range(3)]
        streams = []
        for _ in range(2):
            connection, answer = nginx.ask(path, accept="text/event-stream")
            stack.callback(connection.close)
            lines = iter(stack.enter_context(answer).readline, b"")
            streams.append(lines)
            assert any(line.startswith(b"event: status") for line in lines)  # while the execution goes on
        time.sleep(0.5)
        assert not any(one.done() for one in waiting)
        cancelled = nginx.get(path, method="DELETE")
        assert {one.result().body for one in waiting} == {cancelled.body}
        for lines in streams:
            assert sum(line.startswith(b"event: status") for line in lines) == 1


def test_a_call_of_a_site_at_another_port_stays_at_that_port(proxied):
    nginx, _ = proxied
    call = {"caller": {"id": "me", "type": "user"}, "skill_id": "local/ask-somebody", "inputs": {}}
    where = {"Host": f"skills.example.com:{nginx.port}", "content_type": "application/json"}
    path = "/skills/ask-somebody/executions"
    accepted = nginx.get(path, method="POST", body=json.dumps(call), **where)
    assert accepted.headers["location"].startswith(f"https://skills.example.com:{nginx.port}/executions/")


def test_bodies_as_large_as_the_server_takes_pass(proxied):
    nginx, _ = proxied
    padded = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list_skills"}) + " " * (3 << 20)
    answer = nginx.get("/rpc", method="POST", body=padded, content_type="application/json")
    assert (answer.status, json.loads(answer.body)["id"]) == (200, 1)
    blob = nginx.get("/blobs", method="POST", body=b"a" * (32 << 20), content_type="application/octet-stream")
    assert blob.status == 201


def test_below_a_path_people_sign_in_and_skills_are_called(skills, tmp_path):
    find_peer("nginx")
    address = "https://skills.example.com/team"
    with Serve(skills, tmp_path / "serve", "--base-url", address) as server:
        front, _, _ = in_front().partition("    location / {")
        changes = {**backends(server), "/var/cache/nginx-skills": str(tmp_path / "c")}
        with Front(f"{front}{shown('below /team/')}}}\n", changes, tmp_path / "nginx") as nginx:
            entry = nginx.get("/team/executions", accept="text/html")
            assert (entry.status, entry.headers["location"]) == (303, "/team/login?next=%2Fexecutions")
            assert nginx.get(entry.headers["location"], accept="text/html").status == 200
            shared = json.loads(nginx.get("/team/.well-known/skill-sharing").body)
            [entry] = [one for one in shared["skills"] if one["id"] == "local/ask-somebody"]
            descriptor = json.loads(nginx.get(entry["descriptor_url"].removeprefix("https://skills.example.com")).body)
            path = descriptor["endpoint"]["url"].removeprefix("https://skills.example.com")
            call = {"caller": {"id": "me", "type": "user"}, "skill_id": "local/ask-somebody", "inputs": {}}
            accepted = nginx.get(path, method="POST", body=json.dumps(call), content_type="application/json")
            assert accepted.status == 202
            assert accepted.headers["location"].startswith(f"{address}/executions/")


def test_plain_http_leads_to_https_which_browsers_keep(proxied):
    connection = http.client.HTTPConnection("127.0.0.1", proxied[0].plain_port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/skills/maps?a=1", headers={"Host": "skills.example.com"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (301, "https://skills.example.com/skills/maps?a=1")
    assert proxied[0].get("/").headers["strict-transport-security"] == "max-age=31536000"


def test_metrics_are_for_this_machine(proxied):
    assert proxied[0].get("/metrics").status == 200
    assert re.search(r"metrics.*?allow 127\.0\.0\.1;\s*deny all;", in_front(), re.DOTALL)


@pytest.mark.parametrize("name", ["nginx-servers.conf", "nginx.conf"])
def test_the_page_shows_the_file_of_the_checkout(name):
    assert shown(name) == (PAGE.parents[2] / "deploy" / name).read_text()
