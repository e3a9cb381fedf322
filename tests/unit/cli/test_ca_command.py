"""``skillwire ca`` and ``skillwire key``: from nothing to a certified agent, and back."""

import stat

import pytest

from skillwire.adapters.files.authority import PASSPHRASE, SHORTEST_PASSPHRASE
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import belongs


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def authority(told):
    told("ca", "init", "authority", "-q")


def test_an_authority_is_made_once_with_keys_that_nobody_else_reads(told, place, document):
    assert "would make" in told("ca", "init", "authority", "--dry-run").out
    assert not (place / "authority").exists()
    said = told("ca", "init", "authority", "--name", "example")
    assert "made example Root CA" in said.out
    assert "not encrypted" in said.err
    assert "root.key" in said.err
    assert stat.S_IMODE((place / "authority" / "center.key").stat().st_mode) == 0o600
    assert "CA_EXISTS" in told("ca", "init", "authority", status=6).err
    assert "CA_EXISTS" in told("ca", "init", "authority", "--dry-run", status=6).err
    [center] = document("ca", "list", "authority")["certificates"]
    assert (center["authority"], center["issuer"], center["state"]) == ("example SkillCenter CA", None, "good")
    assert "nothing was issued" in told("ca", "list", "authority").err


def test_a_passphrase_is_asked_of_the_environment(told, monkeypatch):
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    assert "not encrypted" not in told("ca", "init", "authority").err
    monkeypatch.delenv(PASSPHRASE)
    assert "CA_PASSPHRASE" in told("ca", "issue", "authority", "--agent", "a", "-o", "a", status=4).err


@pytest.mark.usefixtures("authority")
def test_a_key_that_is_made_at_the_authority_is_carried_to_the_agent(told, place, document):
    issued = document(
        "ca", "issue", "authority", "--agent", "agent-001", "--skill", "skill-a", "-o", "out", "--days", "2d"
    )
    assert (issued["agents"], issued["skills"], issued["key"]) == (["agent-001"], ["skill-a"], "out/agent.key")
    assert stat.S_IMODE((place / "out" / "agent.key").stat().st_mode) == 0o600
    assert "KEY_EXISTS" in told("ca", "issue", "authority", "--agent", "b", "-o", "out", status=6).err
    assert "would install" in told("key", "install", "out", "--dry-run").out
    assert not LanKeys().folder.exists()
    assert "installed agent-001" in told("key", "install", "out").out
    shown = document("key", "show")
    assert shown["agent"] == "agent-001"
    assert shown["certificate"]["by"] == "authority"
    assert shown["certificate"]["serial"] == issued["serial"]
    told("ca", "issue", "authority", "--agent", "agent-002", "-o", "other", "-q")
    assert "KEY_EXISTS" in told("key", "install", "other", status=6).err
    told("key", "install", "other", "--replace")
    assert document("key", "show")["agent"] == "agent-002"


@pytest.mark.usefixtures("authority")
def test_a_key_stays_at_the_agent_when_it_asks_by_a_request(told, place, document):
    assert "none yet" in told("key", "show").out
    shown = document("key", "show")
    assert {name: shown[name] for name in ("agent", "key", "fingerprint", "certificate")} == dict.fromkeys(
        ("agent", "key", "fingerprint", "certificate")
    )
    assert document("key", "new", "--dry-run", "--agent", "agent-001")["request"] is None
    assert not LanKeys().folder.exists()
    asked = told("key", "new", "--agent", "agent-001", "--host", "192.0.2.7")
    assert asked.out.startswith("-----BEGIN CERTIFICATE REQUEST-----\n")
    (place / "request.pem").write_text(asked.out)
    fingerprint = document("key", "show")["fingerprint"]
    assert "kept the existing key" in told("key", "new", "--agent", "agent-001").err
    issued = document("ca", "issue", "authority", "--request", "request.pem", "-o", "out")
    assert (issued["agents"], issued["hosts"], issued["key"]) == (["agent-001"], ["192.0.2.7"], None)
    told("key", "install", "out/agent.pem")
    assert document("key", "show")["fingerprint"] == fingerprint
    trust = load_trust(LanSettings(roots=("authority/root.pem",), intermediates=("authority/center.pem",)))
    assert trust.agent_id == "agent-001"
    assert not trust.notes
    told("key", "new", "--replace", "-q")
    assert document("key", "show")["fingerprint"] != fingerprint
    assert document("key", "show")["certificate"] is None
    assert "LAN_TRUST" in told("key", "install", "out", status=1).err


@pytest.mark.usefixtures("authority")
def test_what_is_named_counts_more_than_what_a_request_asks_for(told, place, document):
    (place / "request.pem").write_text(told("key", "new", "--agent", "agent-666").out)
    issued = document("ca", "issue", "authority", "--request", "request.pem", "--agent", "agent-001", "-o", "out")
    assert issued["agents"] == ["agent-001"]


@pytest.mark.usefixtures("authority")
def test_certificates_are_taken_back_by_name_or_number(told, document):
    told("ca", "issue", "authority", "--agent", "agent-001", "-o", "one", "-q")
    told("ca", "issue", "authority", "--agent", "agent-002", "-o", "two", "-q")
    assert "would revoke agent-001" in told("ca", "revoke", "authority", "agent-001", "--dry-run").out
    states = [row["state"] for row in document("ca", "list", "authority")["certificates"]]
    assert states == ["good", "good", "good"]
    said = told("ca", "revoke", "authority", "agent-001")
    assert "revoked agent-001" in said.out
    assert "revocations.pem" in said.err
    second = document("ca", "list", "authority")["certificates"][2]
    assert document("ca", "revoke", "authority", second["serial"])["certificates"][0]["state"] == "revoked"
    assert told("ca", "list", "authority").out.count("revoked") == 2
    assert "CERTIFICATE_NOT_FOUND" in told("ca", "revoke", "authority", "agent-001", status=3).err


@pytest.mark.usefixtures("authority")
def test_a_rehearsal_issues_nothing(told, place, document):
    issued = document("ca", "issue", "authority", "--agent", "agent-001", "-o", "out", "--dry-run")
    assert issued["serial"] is None
    assert not (place / "out").exists()
    assert len(document("ca", "list", "authority")["certificates"]) == 1
    assert "--agent ID" in told("ca", "issue", "authority", "-o", "out", status=2).err
    assert "CA_FOLDER" in told("ca", "list", "nosuch", status=3).err


@pytest.mark.usefixtures("authority")
def test_a_skill_center_ca_is_renewed_and_the_one_before_taken_back(told, place, document):
    told("ca", "issue", "authority", "--agent", "agent-001", "-o", "one", "-q")
    (place / "authority" / "root.key").rename(place / "root.key")
    refused = told("ca", "renew", "authority", status=3).err
    assert "CA_FOLDER" in refused
    assert "--root-key" in refused
    assert "would make another" in told("ca", "renew", "authority", "--root-key", "root.key", "--dry-run").out
    first = document("ca", "list", "authority")["certificates"][0]
    assert first["authority"] == "skillwire SkillCenter CA"
    assert "CA_IN_USE" in told("ca", "revoke", "authority", first["serial"], status=6).err

    said = told("ca", "renew", "authority", "--root-key", "root.key")
    assert "made skillwire SkillCenter CA, for" in said.out
    assert "revocations.pem" in said.err
    assert "store off this machine: root.key" in said.err
    assert [row["state"] for row in document("ca", "list", "authority")["certificates"]] == ["good"] * 3

    taken = "ca", "revoke", "authority", first["serial"], "--root-key", "root.key"
    planned = document(*taken, "--dry-run")["certificates"]
    assert [(row["state"], row["agents"]) for row in planned] == [("good", []), ("good", ["agent-001"])]
    said = told(*taken)
    assert "revoked skillwire SkillCenter CA" in said.out
    assert "revoked agent-001" in said.out
    assert "skillwire ca issue authority" in said.err
    rows = document("ca", "list", "authority")["certificates"]
    assert [row["state"] for row in rows] == ["revoked", "revoked", "good"]
    assert rows[1]["issuer"] == first["serial"]
    assert rows[1]["revoked_at"] == rows[0]["revoked_at"]
    assert "revoked with its SkillCenter CA" in told("ca", "list", "authority").out
    assert "CA_FOLDER" in told("ca", "revoke", "authority", first["serial"], status=3).err


@pytest.mark.usefixtures("authority")
def test_a_key_that_was_taken_back_is_certified_no_more(told, place):
    (place / "request.pem").write_text(told("key", "new", "--agent", "agent-001").out)
    told("ca", "issue", "authority", "--request", "request.pem", "-o", "one", "-q")
    told("ca", "revoke", "authority", "agent-001", "-q")
    said = told("ca", "issue", "authority", "--request", "request.pem", "-o", "two", status=4).err
    assert "CERTIFICATE_REFUSED" in said
    assert "skillwire key new --replace" in said
    (place / "request.pem").write_text(told("key", "new", "--replace", "--agent", "agent-001").out)
    told("ca", "issue", "authority", "--request", "request.pem", "-o", "two", "-q")


TRUSTING = """[discovery.trust]
roots = ["{0}/authority/root.pem"]
intermediates = ["{0}/authority/center.pem"]
revocations = ["{0}/authority/revocations.pem"]
"""


@pytest.mark.usefixtures("authority")
def test_a_certificate_that_was_taken_back_is_shown_as_such(told, place, document):
    (place / "home" / "config").mkdir(parents=True)
    (place / "home" / "config" / "skillwire.toml").write_text(TRUSTING.format(place))
    told("ca", "issue", "authority", "--agent", "agent-001", "-o", "one", "-q")
    said = told("key", "install", "one").err
    assert "within 5 s" in said
    assert "restart servers of others" in said
    shown = document("key", "show")["certificate"]
    assert (shown["state"], shown["good"]) == ("good", True)
    told("ca", "revoke", "authority", "agent-001", "-q")
    shown = document("key", "show")["certificate"]
    assert (shown["state"], shown["good"]) == ("revoked", False)
    said = told("key", "show")
    assert "revoked: other agents reject it and its key" in said.out
    assert "key new --replace" in said.err
    assert "revoked" in told("key", "install", "one").err
    (place / "authority" / "revocations.pem").unlink()
    said = told("key", "show")
    assert "by an authority" in said.out
    assert "its revocation status is unknown" in said.err


@pytest.mark.usefixtures("authority")
def test_a_certificate_of_a_skill_center_ca_that_was_taken_back_is_shown_as_such(told, place, document):
    (place / "home" / "config").mkdir(parents=True)
    (place / "home" / "config" / "skillwire.toml").write_text(TRUSTING.format(place))
    told("ca", "issue", "authority", "--agent", "agent-001", "-o", "one", "-q")
    told("key", "install", "one")
    first = document("ca", "list", "authority")["certificates"][0]["serial"]
    told("ca", "renew", "authority")
    told("ca", "revoke", "authority", first)
    assert document("key", "show")["certificate"]["state"] == "revoked"
    said = told("key", "show")
    assert "its SkillCenter CA was revoked" in said.out
    assert "for the same key: skillwire key new\n" in said.err


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(
    ("days", "words"), [("0d", "--days 1h or more"), ("59m", "--days 1h or more"), ("9999d", "at most --days 182")]
)
def test_what_is_good_too_short_or_too_long_is_refused_and_leaves_nothing(told, place, days, words):
    asked = "ca", "issue", "authority", "--agent", "a", "-o", "out", "--days", days
    assert words in told(*asked, status=2).err
    assert words in told(*asked, "--dry-run", status=2).err
    assert not (place / "out").exists()
    told("ca", "issue", "authority", "--agent", "a", "-o", "out", "--days", "1h")


@pytest.mark.usefixtures("authority")
def test_a_wrong_key_of_an_authority_is_answered_with_what_is_right_there(told, place):
    said = told("ca", "renew", "authority", "--root-key", "authority/center.key", status=7).err
    assert "it is not the key of root.pem" in said
    assert "--root-key FILE" in said
    assert "key new" not in said
    (place / "authority" / "center.key").write_text("no key")
    said = told("ca", "issue", "authority", "--agent", "a", "-o", "out", status=7).err
    assert "ca renew authority" in said
    assert "key new" not in said


@pytest.mark.usefixtures("authority")
def test_a_folder_without_a_certificate_is_answered_with_what_was_meant(told):
    said = told("key", "install", "authority", status=1).err
    assert "agent.pem" in said
    assert "written by skillwire ca issue" in said
    assert "center.pem" not in said


def test_the_shortest_passphrase_is_said(told, monkeypatch):
    assert f"at least {SHORTEST_PASSPHRASE} characters" in " ".join(told("ca", "--help").out.split())
    monkeypatch.setenv(PASSPHRASE, "short")
    assert f"at least {SHORTEST_PASSPHRASE} characters" in told("ca", "init", "authority", status=2).err


@pytest.mark.usefixtures("authority")
def test_a_request_that_is_none_is_named_with_what_to_give(told, place):
    (place / "note.txt").write_text("hello")
    errors = told("ca", "issue", "authority", "--request", "note.txt", "-o", "out", status=1).err
    for part in ("CERTIFICATE_REQUEST", "--> note.txt", "no request for a certificate", "skillwire key new"):
        assert part in errors


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(
    ("words", "told_so"),
    [(["--agent", "a b"], "An identifier has"), (["--agent", "a", "--host", "a b"], "such as printer.example.com")],
)
def test_what_cannot_be_certified_is_answered_with_what_can(told, words, told_so):
    errors = told("ca", "issue", "authority", *words, "-o", "out", status=1).err
    assert "CERTIFICATE_REQUEST" in errors
    assert told_so in " ".join(errors.split())


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_second_authority_in_a_folder_is_refused_with_what_there_is(told, place, dry):
    errors = told("ca", "init", "authority", *dry, status=6).err
    assert "there is an authority in this folder already" in errors
    assert "skillwire ca issue authority --agent ID -o TARGET" in " ".join(errors.split())
    (place / "part").mkdir()
    (place / "part" / "root.key").touch()
    errors = told("ca", "init", "part", *dry, status=6).err
    assert "a part of an authority: root.key" in errors
    assert "--> part" in errors


@pytest.fixture
def second(told):
    """Return the keys of the second agent of this machine, whose first one is certified as ``hosta``."""
    told("ca", "init", "authority", "-q")
    told("ca", "issue", "authority", "--agent", "hosta", "-o", "issued-a", "-q")
    told("key", "install", "issued-a")
    keys = LanKeys(LanKeys().folder / "agents" / "hosta-2")  # as a second server of this machine makes it
    keys.keep_id("hosta-2")
    keys.key()
    return keys


def test_the_second_agent_of_a_machine_is_certified_without_a_change_of_the_first(told, place, document, second):
    first = LanKeys().certificate()
    asked = told("key", "new", "--agent", "hosta-2")
    assert str(second.key_file) in " ".join(asked.err.split())
    (place / "r2.pem").write_text(asked.out)
    told("ca", "issue", "authority", "--request", "r2.pem", "-o", "issued-a2", "-q")
    assert "installed hosta-2" in told("key", "install", "issued-a2").out
    assert LanKeys().certificate() == first
    assert LanKeys().known_id() == "hosta"
    assert document("key", "show", "--agent", "hosta")["agent"] == "hosta"
    shown = document("key", "show", "--agent", "hosta-2")
    assert (shown["agent"], shown["key"], shown["certificate"]["by"]) == ("hosta-2", str(second.key_file), "authority")
    assert "Name one of these: hosta, hosta-2." in told("key", "show", "--agent", "hostb", status=2).err
    trust = load_trust(LanSettings(roots=("authority/root.pem",)), folder=second.folder)
    assert (trust.agent_id, trust.notes) == ("hosta-2", ())


def test_a_key_that_came_with_the_certificate_is_that_of_the_agent_it_names(told, second):
    told("ca", "issue", "authority", "--agent", "hosta-2", "-o", "carried", "-q")
    assert "KEY_EXISTS" in told("key", "install", "carried", status=6).err
    told("key", "install", "carried", "--replace")
    certificate = second.certificate()
    assert certificate is not None
    assert belongs(certificate, second.key())
    assert LanKeys().known_id() == "hosta"


@pytest.mark.parametrize(("asking", "named"), [("hosta", "hosta-2"), ("hosta", "hostb"), ("hosta-2", "hosta")])
def test_a_certificate_that_would_rename_an_agent_is_refused_with_the_way(told, place, second, asking, named):
    first, own = LanKeys().certificate(), second.certificate()
    (place / "request.pem").write_text(told("key", "new", "--agent", asking).out)
    told("ca", "issue", "authority", "--request", "request.pem", "--agent", named, "-o", "issued", "-q")
    said = " ".join(told("key", "install", "issued", status=1).err.split())
    assert f"names {named}, but the agent with this key is {asking}" in said
    assert "skillwire key new --agent" in said
    assert (LanKeys().certificate(), second.certificate()) == (first, own)
    told("key", "install", "issued", "--replace")


@pytest.mark.usefixtures("second")
def test_a_certificate_of_a_key_that_no_agent_has_is_refused_with_the_way(told, place):
    (place / "request.pem").write_text(told("key", "new", "--agent", "hosta-2").out)
    told("ca", "issue", "authority", "--request", "request.pem", "-o", "issued", "-q")
    told("key", "new", "--agent", "hosta-2", "--replace", "-q")
    said = " ".join(told("key", "install", "issued", status=1).err.split())
    assert "no agent of this machine has the certificate's key" in said
    assert "skillwire key new --agent hosta-2, then" in said


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("replace", [(), ("--replace",)])
def test_a_mistyped_agent_neither_replaces_the_key_of_the_first_nor_asks_with_it(told, replace):
    key, certificate = LanKeys().key_file.read_bytes(), LanKeys().certificate()
    said = told("key", "new", "--agent", "hosta2", *replace, status=2)
    assert said.out == ""
    assert "no agent of this machine is named hosta2" in said.err
    fix = "Name one of these: hosta, hosta-2. The key of a second agent is made when its server first starts."
    assert fix in " ".join(said.err.split())
    assert (LanKeys().key_file.read_bytes(), LanKeys().certificate()) == (key, certificate)


@pytest.mark.usefixtures("second")
def test_the_name_of_the_settings_is_asked_for_though_the_certificate_has_another(told, place):
    (place / "home" / "config").mkdir(parents=True)
    (place / "home" / "config" / "skillwire.toml").write_text('[discovery]\nagentId = "hostb"\n')
    assert "BEGIN CERTIFICATE REQUEST" in told("key", "new").out
