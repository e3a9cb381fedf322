"""Profile *signed* between real processes: who speaks it finds the others, and who does not is left out and counted."""

import json
import time
from typing import Any

import pytest
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.publishing import write_skill

from skillwire.adapters.files.authority import AuthorityFolder


@pytest.fixture(params=["certified", "group key"])
def trust(tmp_path, request):
    """Give what two agents are told, what a third one is told, and by which reason each drops the other's.

    They are certified, and the third, though certified, signs what the text signs and nothing else; or they share a
    secret, and the third has another one.
    """
    if request.param == "group key":
        ours, other = ({"groupKeyFile": _secret(tmp_path / name), "profile": "signed"} for name in ("ours", "other"))
        return ours, other, "another group key"
    folder = AuthorityFolder.create(tmp_path / "authority", "Test", time.time())
    files: dict[str, Any] = {"roots": [str(folder.root_file)], "intermediates": [str(folder.center_file)]}
    files["renewFrom"] = str(folder.folder)
    return files | {"profile": "signed"}, files | {"profile": "open"}, "another profile"


def _secret(file):
    file.write_text(f"the secret of {file.name}, which all of a network share\n")
    file.chmod(0o600)
    return str(file)


def serve(place, folder, name, trust):
    write_skill(folder / "skills" / name, f"skill-{name}")
    return place.serve(folder / "skills" / name, f"home-{name}", trust=trust).started()


def look(server):
    """Return what ``skillwire lan`` lists with a server's configuration: skill → its trust."""
    command = ["lan", "--once", "--json", "--interface", "127.0.0.1", "--discovery", str(server.home / "lan.yaml")]
    environment = {**server.environment, "SKILLWIRE_HOME": str(server.home.with_name("looks"))}
    done = run_command(*command, env=environment)
    assert done.code == 0, done.err
    return {one["skill_id"]: one["trust"] for one in json.loads(done.out.splitlines()[0])["skills"]}


def known(server, operator):
    """Return what a server lists, and what it has dropped."""
    document = json.loads(server.get("/lan.json", operator))
    return {one["skillId"]: one["trust"] for one in document["skills"]}, document["counters"]


def until(server, condition):
    """Ask a server until a condition holds of what it lists and has dropped."""
    operator = server.operator()
    # A server bounds the requests of one host.
    eventually(lambda: known(server, operator), lambda found: condition(*found), server.log, every=0.2)


@pytest.mark.spec("SDP-profile-signed")
def test_who_signs_everything_is_found_and_who_does_not_is_left_out_and_counted(place, tmp_path, trust):
    signed, differs, reason = trust
    first, second = (serve(place, tmp_path, name, signed) for name in ("first", "second"))
    other = serve(place, tmp_path, "other", differs)

    pair = {"skill-first": "verified", "skill-second": "verified"}
    for server in (first, second):
        until(server, lambda listed, dropped: listed == pair and dropped.get(reason, 0) > 3)
    until(other, lambda listed, dropped: listed == {"skill-other": "verified"} and dropped.get(reason, 0) > 3)
    assert look(first) == pair
    assert look(other) == {"skill-other": "verified"}
