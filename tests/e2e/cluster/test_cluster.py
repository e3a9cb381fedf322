"""Any server answers anything: what one of three acknowledged, the others know."""

import hashlib
import json
import os
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from tests.e2e.cluster.conftest import REVISION, document
from tests.support.eventually import PATIENCE, eventually
from tests.support.pages import shown
from tests.support.registry_site import API, skill_archive

import skillwire

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "many-machines.md"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_a_publication_at_one_server_is_read_at_the_others_at_once(cluster):
    a, b, c = cluster.servers
    for number in range(5):
        answer = cluster.publish(a, f"skill-{number}")
        assert answer.status == 201, answer
        for server in (b, c):
            found = cluster.index(server, answer.fields[REVISION.lower()])[f"skill-{number}"]
            artifact = server.get(f"/.well-known/agent-skills/{found['url']}")
            assert f"sha256:{hashlib.sha256(artifact.body).hexdigest()}" == found["digest"]


def test_a_version_that_is_yanked_at_one_server_is_not_offered_at_another(cluster):
    a, b, c = cluster.servers
    cluster.publish(a, "yanked")
    old = cluster.publish(b, "yanked", "1.1.0")
    assert cluster.index(c, old.fields[REVISION.lower()])["yanked"]["version"] == "1.1.0"
    path = f"{API}/packages/ann/yanked/1.1.0"
    answer = b.get(path, cluster.fields(), method="PATCH", body=b'{"status": "yanked", "reason": "broken"}')
    assert answer.status < 300, answer
    assert cluster.index(c, answer.fields[REVISION.lower()])["yanked"]["version"] == "1.0.0"


def test_a_change_that_nobody_made_is_not_waited_for(cluster):
    assert "waits" in cluster.index(cluster.servers[2], str(10**12))


def test_a_server_that_never_saw_a_version_sends_its_bytes(cluster):
    a, _, c = cluster.servers
    cluster.publish(a, "old", "1.0.0", "The first.\n")
    cluster.publish(a, "old", "1.1.0", "The second.\n")
    answer = c.get(f"{API}/packages/ann/old/1.0.0/download")
    assert (answer.status, b"The first." in answer.body) == (200, True)


def test_each_server_counts_against_its_share_of_a_limit(cluster):
    def limits():
        answers = [server.get(f"{API}/packages", cluster.fields()) for server in cluster.servers]
        return {answer.fields["ratelimit-limit"] for answer in answers}

    eventually(lambda: limits() == {"1000"})  # of 3,000


def test_an_upload_goes_on_at_another_server(cluster):
    archive = skill_archive("uploaded", text=os.urandom(300).hex())
    fields = cluster.fields(**{"Content-Type": "application/json"})
    asked = f'{{"size": {len(archive)}, "digest": "sha256:{hashlib.sha256(archive).hexdigest()}"}}'
    a, b, c = cluster.servers
    number = document(a.get(f"{API}/uploads", fields, method="POST", body=asked.encode()))["id"]
    for server, start, end in ((b, 0, 100), (c, 100, 200), (a, 200, len(archive))):
        more = cluster.fields(**{"Upload-Offset": str(start)})
        document(server.get(f"{API}/uploads/{number}", more, method="PATCH", body=archive[start:end]))
    twice = b.get(f"{API}/uploads/{number}", cluster.fields(**{"Upload-Offset": "5"}), method="PATCH", body=b"again")
    assert twice.status == 409
    path = f"{API}/namespaces/ann/packages?upload={number}"
    answer = b.get(path, cluster.fields(), method="POST")
    assert answer.status == 201, answer
    assert "uploaded" in cluster.index(c, answer.fields[REVISION.lower()])


def test_files_that_are_sent_one_by_one_to_any_server_are_published_together(cluster):
    a, b, c = cluster.servers
    content = b"---\nname: in-pieces\ndescription: Does it.\nmetadata:\n  version: 1.0.0\n---\nDo it.\n"
    hub, fields = "/api/v1/skills", cluster.fields(**{"Content-Type": "application/json"})
    asked = {"path": "SKILL.md", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    ticket = document(a.get(f"{hub}/-/upload-url", fields, method="POST", body=json.dumps(asked).encode()))
    document(b.get(f"{hub}/-/uploads/{ticket['uploadTicket']}", cluster.fields(), method="POST", body=content))
    files = [{"storageId": ticket["uploadTicket"]}]
    wish = json.dumps({"slug": "in-pieces", "version": "1.0.0", "ownerHandle": "ann", "files": files})
    answer = c.get(hub, fields, method="POST", body=wish.encode())
    assert document(answer)["ok"], answer
    assert "in-pieces" in cluster.index(a, answer.fields[REVISION.lower()])


def test_a_session_begun_at_one_server_counts_at_the_others_and_ends_at_all(cluster):
    a, b, c = cluster.servers
    entered = a.get("/login", form_of(a), method="POST", body=urlencode({"key": cluster.operator}))
    cookie = entered.fields["set-cookie"].partition(";")[0]
    signed = {"Accept": "text/html", "Cookie": cookie}
    page = b.get("/executions", signed)
    assert (page.status, b"operator" in page.body) == (200, True)
    token = page.body.decode().partition('name="token" value="')[2].partition('"')[0]
    left = b.get("/logout", {**form_of(b), "Cookie": cookie}, method="POST", body=urlencode({"token": token}))
    assert left.status == 303, left
    assert c.get("/executions", signed).status != 200


def test_a_login_begun_at_one_server_is_confirmed_at_another_and_polled_at_the_third(cluster):
    a, b, c = cluster.servers
    begun = document(
        a.get(f"{API}/oauth/device", FORM, method="POST", body=urlencode({"client_id": "x", "scope": "read"}))
    )
    entered = b.get("/login", form_of(b), method="POST", body=urlencode({"key": cluster.token}))
    signed = {**form_of(b), "Cookie": entered.fields["set-cookie"].partition(";")[0]}
    page = b.get(f"/account/device?user_code={begun['user_code']}", signed).body.decode()
    token = page.partition('name="token" value="')[2].partition('"')[0]
    form = {"token": token, "code": begun["user_code"], "decision": "approve", "scope": "read", "lifetime": "1"}
    confirmed = b.get("/account/device", signed, method="POST", body=urlencode(form))
    assert confirmed.status in {200, 303}, confirmed
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    poll = urlencode({"grant_type": grant, "device_code": begun["device_code"], "client_id": "x"})
    polled = c.get(f"{API}/oauth/token", FORM, method="POST", body=poll)
    key = document(polled)["access_token"]
    whoami = a.get(f"{API}/whoami", {"Authorization": f"Bearer {key}"})
    assert document(whoami)["account"] == "ann"


def test_an_execution_accepted_at_one_server_is_waited_for_at_another(cluster):
    a, b, _ = cluster.servers
    accepted = call(a, 0.5)
    ended = b.get(f"/executions/{accepted['execution_id']}", {"Prefer": "wait=30", "Accept": "application/json"})
    while ended.json()["status"] in {"accepted", "running"}:
        ended = b.get(f"/executions/{accepted['execution_id']}", {"Prefer": "wait=30", "Accept": "application/json"})
    assert ended.json()["status"] == "completed", ended.body


def test_a_stream_at_a_server_that_runs_nothing_shows_the_end_at_another(cluster):
    a = cluster.servers[0]
    stream = a.get(f"/executions/{call(a, 0.5)['execution_id']}", {"Accept": "text/event-stream"})  # it ends by itself
    assert (stream.status, stream.fields["content-type"]) == (200, "text/event-stream")
    seen = [json.loads(line[6:])["status"] for line in stream.body.decode().splitlines() if line.startswith("data: ")]
    assert (seen[-1], set(seen) <= {"accepted", "running", "completed"}) == ("completed", True), seen


def test_a_second_server_with_another_key_is_refused_with_the_file_to_copy(cluster, tmp_path):
    key = tmp_path / "other.key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    said = cluster.refused(key)
    assert "another key" in said
    assert "other.key" in said
    assert "Traceback" not in said  # of connections that were left open


def form_of(server):
    """Return the header fields of a form of the server's own pages."""
    return {**FORM, "Accept": "text/html", "Origin": f"http://{server.origin}"}


def call(server, seconds):
    caller = {"id": "tester", "type": "ifay"}
    body = json.dumps({"caller": caller, "skill_id": "local/waits", "inputs": {"seconds": seconds}})
    fields = {"Content-Type": "application/json"}
    return document(server.get("/skills/waits/executions", fields, method="POST", body=body))


def test_a_stopped_database_is_reported_in_time_and_the_public_index_stays(cluster):
    a = cluster.servers[0]
    revision = cluster.publish(a, "before").fields[REVISION.lower()]
    assert all("before" in cluster.index(server, revision) for server in cluster.servers)
    with cluster.stopped_database():
        answer = a.get(f"{API}/packages/ann/before")
        assert (answer.status, "retry-after" in answer.fields) == (503, True), answer
        assert "before" in cluster.index(a)
        assert "before" in cluster.index(cluster.servers[1])
        failing = eventually(lambda: a.get("/readyz").json()["failing"])
        assert "DATABASE" in failing.values()
    eventually(lambda: cluster.publish(a, "after").status, {200, 201}.__contains__)
    eventually(lambda: cluster.index(cluster.servers[1]), lambda found: "after" in found)


def test_what_a_killed_server_ran_another_one_runs(cluster):
    extra = cluster.start(3)
    ids = [call(extra, 1)["execution_id"] for _ in range(4)]
    extra.process.kill()
    for execution_id in ids:
        ask = partial(cluster.servers[0].get, f"/executions/{execution_id}", {"Accept": "application/json"})
        eventually(ask, lambda answer: answer.json()["status"] == "completed", execution_id, every=0.1)


def test_a_server_killed_while_it_publishes_leaves_each_version_whole_or_absent(cluster):
    extra, acknowledged = cluster.start(4), {}

    def publish():
        for number in range(1_000):
            try:
                answer = cluster.publish(extra, "killed", f"1.{number}.0", f"Do {number}.\n")
            except OSError:
                return
            if answer.status == 201:
                acknowledged[f"1.{number}.0"] = answer.fields[REVISION.lower()]

    thread = threading.Thread(target=publish)
    thread.start()
    eventually(acknowledged.__len__, lambda number: number >= 5)
    extra.process.kill()
    thread.join()
    package = document(cluster.servers[1].get(f"{API}/packages/ann/killed"))
    found = {one["version"]: one for one in package["versions"]}
    assert found.keys() >= acknowledged.keys()
    for version, one in found.items():
        answer = cluster.servers[2].get(f"{API}/packages/ann/killed/{version}/download")
        assert (answer.status, len(answer.body)) == (200, one["size"])
    last = cluster.index(cluster.servers[0], max(acknowledged.values(), key=int))["killed"]
    assert last["version"] in found


def test_a_backup_is_restored_into_an_empty_database_by_the_commands_of_the_page(cluster, tmp_path):
    def follow(title, url):
        for command, _ in shown(PAGE, title):
            path = f"{cluster.database.programs}:{os.environ['PATH']}"
            variables = {**os.environ, "PATH": path, "SKILLWIRE_STORE": url}
            subprocess.run(["sh", "-c", command], cwd=tmp_path, env=variables, check=True, timeout=PATIENCE)

    a = cluster.servers[0]
    cluster.publish(a, "kept", "1.0.0", "The first.\n")
    cluster.publish(a, "kept", "1.1.0", "The second.\n")
    execution = call(a, 0)["execution_id"]
    ask = {"Accept": "application/json"}
    ended = eventually(
        lambda: a.get(f"/executions/{execution}", ask).json(), lambda answer: answer["status"] == "completed"
    )
    follow("backup", cluster.url)
    cluster.publish(a, "later")
    cluster.database.execute("CREATE DATABASE restored")
    follow("restore", cluster.database.url("restored"))
    server = cluster.start(5, "--store", cluster.database.url("restored"))
    assert cluster.index(server)["kept"]["version"] == "1.1.0"
    assert "later" not in cluster.index(server)
    assert b"The first." in server.get(f"{API}/packages/ann/kept/1.0.0/download").body
    assert server.get(f"/executions/{execution}", ask).json() == ended
    assert cluster.publish(server, "next").status == 201  # with a token of before
    assert call(server, 0)["status"] == "accepted"


def test_servers_of_two_versions_with_different_schemas_share_a_database(cluster, tmp_path):
    """The newer version is a copy of the sources with one more step of the schema."""
    sources = shutil.copytree(Path(skillwire.__file__).parent, tmp_path / "newer" / "skillwire").parent
    step = "ALTER TABLE packages ADD COLUMN rating BIGINT NOT NULL DEFAULT 0;"
    (sources / "skillwire" / "adapters" / "postgres" / "migrations" / "0900_rating.sql").write_text(step)
    cluster.database.execute("CREATE DATABASE upgraded")
    url = cluster.database.url("upgraded")
    fields = {"Authorization": f"Bearer {cluster.make_tokens(url)[0]}"}
    old = cluster.start(6, "--store", url)
    new = cluster.start(7, "--store", url, source=sources)
    assert cluster.database.has("SELECT count(*) = 1 FROM migrations WHERE number = 900", "upgraded")
    for number, (writer, reader) in enumerate([(old, new), (new, old), (old, new)]):
        body = skill_archive("both", f"1.{number}.0")
        answer = writer.get(f"{API}/namespaces/ann/packages", fields, method="POST", body=body)
        assert answer.status == 201, answer
        assert cluster.index(reader, answer.fields[REVISION.lower()])["both"]["version"] == f"1.{number}.0"
        ask = partial(reader.get, f"/executions/{call(writer, 0)['execution_id']}", {"Accept": "application/json"})
        eventually(ask, lambda answer: answer.json()["status"] == "completed", every=0.1)
    assert old.end()[0] == 0
    assert "its schema has step 900" in cluster.refused(cluster.key, "--store", url)
    assert cluster.index(new)["both"]["version"] == "1.2.0"
