"""A name is one process's: the next has one of its own, or is refused where it was configured; a crash frees it."""

import gc
import subprocess
import sys
import time

import pytest

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.lan.agent import default_agent_name, load_agent_identity
from skillwire.errors import ConflictError, SourceLocation, StorageError, ValidationError
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import RequestedNames

HOLDER = """
import sys
import time
from skillwire.adapters.lan.agent import default_agent_name
from skillwire.protocols.skill_discovery.settings import LanSettings
name = default_agent_name(LanSettings(agent_id=sys.argv[1]))
print(name.agent_id, flush=True)
sys.stdin.read()
"""
ASKS = frozenset({Role.END_AGENT, Role.OBSERVER})


@pytest.fixture
def another():
    """Give what starts a process that holds a name, and says which."""
    running = []

    def started(agent_id=""):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, agent_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield started
    for process in running:
        process.kill()
        process.communicate()


def test_the_second_process_has_a_name_and_a_key_of_its_own(another):
    first = LanKeys().agent_id()
    assert another()[1] == first

    here = load_agent_identity(LanSettings(), frozenset(Role))

    assert here.agent_id == f"{first}-2"
    assert here.folder == LanKeys().folder / "agents" / here.agent_id
    assert here.notes == (f"another process takes part as {first}: this one is {first}-2, with a key of its own",)
    assert LanKeys(here.folder).key().public_key() != LanKeys().key().public_key()
    assert another()[1] == f"{first}-3"


def test_a_crash_lets_the_name_go(another):
    process, name = another()
    process.kill()
    process.wait()

    assert default_agent_name(LanSettings()).agent_id == name


def test_a_name_that_is_let_go_or_forgotten_is_free_and_what_is_held_is_held_once():
    held = default_agent_name(LanSettings())
    held.hold()
    assert default_agent_name(LanSettings()).agent_id == f"{held.agent_id}-2"
    gc.collect()
    held.let_go()
    held.let_go()
    again = default_agent_name(LanSettings())
    assert again.agent_id == held.agent_id
    with pytest.raises(ConflictError, match="LAN_NAME"):
        held.hold()


def test_the_key_of_the_second_is_kept(another):
    another()
    keys = []
    for _ in range(2):
        here = load_agent_identity(LanSettings(), frozenset(Role))
        keys.append(LanKeys(here.folder).key().public_key())
        assert here.name is not None
        here.name.let_go()
    assert keys[0] == keys[1]


def test_a_configured_name_that_is_taken_is_refused(another):
    another("agent-x")

    with pytest.raises(ConflictError, match="another process of this machine takes part as agent-x") as caught:
        load_agent_identity(LanSettings(agent_id="agent-x"), frozenset(Role))

    assert caught.value.code == "LAN_NAME"
    assert load_agent_identity(LanSettings(agent_id="agent-y"), frozenset(Role)).agent_id == "agent-y"


def test_who_only_asks_shares_the_first_ones_name_and_key(another):
    _, first = another()

    here = load_agent_identity(LanSettings(), ASKS)

    assert (here.agent_id, here.name, here.notes, here.folder) == (first, None, (), LanKeys().folder)


def test_what_cannot_be_read_holds_no_name():
    with pytest.raises(Exception, match="LAN_TRUST"):
        load_agent_identity(LanSettings(roots=("nowhere.pem",)), frozenset(Role))
    gc.collect()
    assert default_agent_name(LanSettings()).first == ""


@pytest.mark.spec("SDP-identifier")
@pytest.mark.parametrize("name", ["a" * 119, "no name"])
def test_a_name_that_no_message_has_room_for_is_refused_wherever_it_is_from(name):
    keys = LanKeys()
    keys.keep_id(name)
    with pytest.raises(ValidationError, match="the name of this agent must be letters") as kept:
        load_agent_identity(LanSettings(), frozenset(Role))
    assert (kept.value.code, kept.value.place) == ("LAN_TRUST", SourceLocation(str(keys.folder)))
    assert "Set agentId" in kept.value.diagnostics().fix
    default_agent_name(LanSettings(agent_id=name)).let_go()  # it was let go


def test_a_name_from_a_certificate_is_bounded_too(tmp_path):
    name = "a" * 119
    keys = LanKeys()
    made = AuthorityFolder.create(tmp_path / "authority", "acme", time.time())
    keys.keep_certificate(made.certify(name, RequestedNames((name,)), keys.key().public_key(), time.time()))
    keys.keep_id("agent-x")
    with pytest.raises(ValidationError, match="at most 118; it is 'aaa"):
        load_agent_identity(LanSettings(), frozenset(Role))


def test_an_agent_that_only_asks_needs_no_place_for_its_key(monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", "/proc/none")  # where not even root makes a folder
    here = load_agent_identity(LanSettings(), ASKS)
    assert here.unkept is not None
    judgement = here.authority.judge(here.agent_id, here.identity.certificate, time.time())
    assert judgement is not None
    assert judgement.standing_of(here.agent_id) is Standing.UNVERIFIED
    assert judgement.key.verifies(b"x", here.identity.sign(b"x"))
    with pytest.raises(StorageError):
        load_agent_identity(LanSettings(), frozenset(Role))
