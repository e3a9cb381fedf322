"""The key of an agent: made once, for its owner alone, with a certificate that stays good; and what it trusts."""

import dataclasses
import os
import stat
import threading
import time
from typing import Any

import pytest
from tests.support.authorities import World

from skillwire.adapters.files import keys
from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_cache_file import trust_digest
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.files.settings_file import load_settings, read_discovery_file
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.protocols.skill_discovery.identity import GroupKey, Standing
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.resolver.settings import DiscoverySource, join_discovery
from skillwire.trust.certificates import RequestedNames, certificate_pem, is_own, life_of, private_pem
from skillwire.trust.ecdsa import new_key

DAY = 86_400.0
OPEN = LanSettings()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "lan"


def load(settings, **options):
    return load_trust(settings, **options)


def code_of(act):
    with pytest.raises(SkillwireError) as caught:
        act()
    return caught.value.code


def test_all_is_made_once_and_for_its_owner_alone(folder):
    trust = load(OPEN, folder=folder)
    again = load(OPEN, folder=folder)
    assert (again.agent_id, again.identity.certificate) == (trust.agent_id, trust.identity.certificate)
    assert {file.name for file in folder.iterdir()} == {"agent-id", "agent.key", "agent.pem"}
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = trust.authority.judge(trust.agent_id, trust.identity.certificate, time.time())
    assert found is not None
    assert found.standing is Standing.UNVERIFIED
    assert trust.authority.judge("somebody-else", trust.identity.certificate, time.time()) is None


def test_processes_that_begin_together_agree(folder):
    found = []
    threads = [threading.Thread(target=lambda: found.append(load(OPEN, folder=folder))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({trust.agent_id for trust in found}) == 1
    assert len({trust.identity.key.private_numbers().private_value for trust in found}) == 1


def test_an_own_certificate_is_made_anew_after_two_thirds_of_its_life(folder):
    now = time.time()
    first = load(OPEN, folder=folder, now=now).identity
    assert load(OPEN, folder=folder, now=now + 4.6 * DAY).identity.certificate == first.certificate
    second = load(OPEN, folder=folder, now=now + 4.7 * DAY).identity
    assert second.certificate != first.certificate
    assert second.key.public_key() == first.key.public_key()


def test_a_name_of_the_settings_is_in_the_certificate(folder):
    load(OPEN, folder=folder)
    trust = load(dataclasses.replace(OPEN, agent_id="agent-001"), folder=folder)
    assert trust.agent_id == "agent-001"
    assert trust.authority.judge("agent-001", trust.identity.certificate, time.time()) is not None


def test_a_key_that_others_may_read_or_that_is_none_is_refused(folder):
    load(OPEN, folder=folder)
    key = folder / "agent.key"
    key.chmod(0o640)
    assert code_of(lambda: load(OPEN, folder=folder)) == "LAN_KEYS"
    key.chmod(0o600)
    key.write_text("no key")
    assert code_of(lambda: load(OPEN, folder=folder)) == "LAN_KEYS"


def test_a_group_key_takes_the_place_of_all_certificates(folder, tmp_path):
    secret = tmp_path / "group"
    secret.write_text("a secret that all of us share\n")
    secret.chmod(0o600)
    settings = dataclasses.replace(OPEN, group_key_file=str(secret))
    trust = load(settings, folder=folder)
    assert isinstance(trust.identity, GroupKey)
    assert trust.identity.sign(b"said") == GroupKey(b"a secret that all of us share").sign(b"said")
    assert not (folder / "agent.key").exists()
    secret.chmod(0o644)
    assert code_of(lambda: load(settings, folder=folder)) == "LAN_KEYS"
    secret.write_text("short")
    secret.chmod(0o600)
    assert code_of(lambda: load(settings, folder=folder)) == "LAN_KEYS"


class TestCertified:
    """An agent with an authority."""

    @pytest.fixture
    def world(self, tmp_path):
        world: Any = World()
        (tmp_path / "root.pem").write_bytes(certificate_pem(world.root.certificate))
        (tmp_path / "center.der").write_bytes(world.center.certificate)
        world.settings = LanSettings(roots=(str(tmp_path / "root.pem"),), intermediates=(str(tmp_path / "center.der"),))
        return world

    @staticmethod
    def install(folder, world, *agents, **options):
        keys = LanKeys(folder)
        names = RequestedNames(agents, tuple(options.pop("skills", ())))
        at = options.pop("at", world.now)
        keys.keep_certificate(world.center.issue(names, keys.key().public_key(), at, **options))
        return keys

    def test_it_is_verified_by_the_name_of_its_certificate(self, folder, world):
        self.install(folder, world, "agent-001")
        trust = load(world.settings, folder=folder)
        assert trust.agent_id == "agent-001"
        found = trust.authority.judge("agent-001", trust.identity.certificate, world.now)
        assert found is not None
        assert found.standing is Standing.CERTIFIED

    def test_a_certificate_for_skills_alone_leaves_the_name(self, folder, world):
        keys = self.install(folder, world, skills=["skill-org-feishu"])
        assert load(world.settings, folder=folder).agent_id == keys.agent_id()

    def test_one_for_another_agent_or_another_key_is_refused(self, folder, world):
        keys = self.install(folder, world, "agent-001")
        other = dataclasses.replace(world.settings, agent_id="agent-002")
        with pytest.raises(ValidationError) as refused:
            load(other, folder=folder)
        assert (refused.value.code, str(refused.value.place)) == ("LAN_TRUST", str(keys.certificate_file))
        certificate = keys.certificate()
        keys.keep_key(new_key())
        keys.keep_certificate(certificate)
        with pytest.raises(ValidationError, match="another key") as refused:
            load(world.settings, folder=folder)
        assert (refused.value.code, str(refused.value.place)) == ("LAN_TRUST", str(keys.certificate_file))

    def test_one_that_has_ended_leaves_the_agent_unverified_and_says_so(self, folder, world):
        keys = self.install(folder, world, "agent-001", days=1)
        trust = load(world.settings, folder=folder, now=world.now + 2 * DAY)
        assert is_own(trust.identity.certificate)
        assert "has ended" in trust.notes[0]
        assert life_of(keys.certificate())[1] < world.now + 2 * DAY  # what was issued stays until there is another

    @pytest.mark.parametrize(
        "content", [b"nothing", b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n", None]
    )
    def test_a_root_that_cannot_be_read_is_named(self, folder, tmp_path, content):
        root = tmp_path / "root.pem"
        if content is not None:
            root.write_bytes(content)
        assert code_of(lambda: load(LanSettings(roots=(str(root),)), folder=folder)) == "LAN_TRUST"

    def test_lists_are_kept_and_one_that_has_ended_is_said(self, folder, world, tmp_path):
        listed = tmp_path / "revocations.pem"
        listed.write_bytes(world.revoke(77))
        settings = dataclasses.replace(world.settings, revocations=(str(listed), "https://example.com/list"))
        trust = load(settings, folder=folder)
        assert len(trust.revocations) == 1
        trust.keys.keep_revocations(trust.revocations.pem())
        again = load(world.settings, folder=folder, now=world.now + 8 * DAY)
        assert len(again.revocations) == 1
        assert "revocation list expired" in again.notes[0]
        elsewhere = load(LanSettings(), folder=folder)
        assert len(elsewhere.revocations) == 0
        assert not elsewhere.notes  # who trusts nobody has nothing to hold against anybody
        assert len(load(world.settings, folder=folder).revocations) == 1

    def test_lists_of_an_authority_that_is_trusted_no_more_are_forgotten_and_that_is_said_once(
        self, folder, world, tmp_path
    ):
        trust = load(world.settings, folder=folder)
        trust.revocations.take(world.revoke(77), world.now)
        trust.keys.keep_revocations(trust.revocations.pem())
        other = AuthorityFolder.create(tmp_path / "other", "Other", world.now)
        elsewhere = LanSettings(roots=(str(other.root_file),), intermediates=(str(other.center_file),))
        assert ["are forgotten" in note for note in load(elsewhere, folder=folder).notes] == [True]
        assert not load(elsewhere, folder=folder).notes
        assert not trust.keys.revocations()

    @pytest.mark.parametrize("url", ["http://registry.example.com/lan/revocations", "ftp://192.0.2.7/list"])
    def test_a_url_that_is_never_asked_is_refused(self, folder, world, url):
        settings = dataclasses.replace(
            world.settings, revocations=(url,), places={"revocations": SourceLocation("skillwire.toml", 7)}
        )
        with pytest.raises(SkillwireError) as caught:
            load(settings, folder=folder)
        assert str(caught.value.place) == "skillwire.toml:7"
        assert url.partition("/lan")[0] in str(caught.value)
        local = dataclasses.replace(settings, revocations=("http://192.168.7.7:8000/lan/revocations",))
        assert load(local, folder=folder).revocations is not None

    def test_the_folder_of_an_authority_certifies_and_is_trusted(self, folder, tmp_path):
        authority = AuthorityFolder.create(tmp_path / "authority", "Test", time.time())
        settings = LanSettings(agent_id="agent-001", renew_from=str(authority.folder))
        trust = load(settings, folder=folder)
        found = trust.authority.judge("agent-001", trust.identity.certificate, time.time())
        assert found is not None
        assert found.standing is Standing.CERTIFIED
        assert load(settings, folder=folder).identity.certificate == trust.identity.certificate
        (authority.folder / "center.key").unlink()
        alone = load(settings, folder=folder, now=time.time() + 6 * DAY)
        assert alone.identity.certificate == trust.identity.certificate
        assert "issued us no certificate" in alone.notes[0]
        assert code_of(lambda: load(LanSettings(renew_from=str(tmp_path)), folder=folder)) == "CA_FOLDER"


def test_a_key_file_holds_p256_and_nothing_else(folder):
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - for this one

    keys = LanKeys(folder)
    keys.keep_key(ec.generate_private_key(ec.SECP384R1()))
    assert code_of(keys.key) == "LAN_KEYS"
    assert private_pem(new_key(), b"a passphrase").startswith(b"-----BEGIN ENCRYPTED")


def test_whom_is_trusted_is_told_by_the_files_as_they_are(tmp_path):
    (tmp_path / "root.pem").write_bytes(b"a root")
    (tmp_path / "list.pem").write_bytes(b"a list")
    root, listed, group = (str(tmp_path / name) for name in ("root.pem", "list.pem", "secret"))
    found = [
        trust_digest(settings, folder=tmp_path / "lan")
        for settings in (
            LanSettings(),
            LanSettings(roots=(root,)),
            LanSettings(roots=(root,), revocations=(listed,)),
            LanSettings(roots=(root,), revocations=(listed, "https://ca.example.com/list.pem")),
            LanSettings(group_key_file=group),
            LanSettings(authority=str(tmp_path)),
            LanSettings(renew_from=str(tmp_path / "elsewhere")),
        )
    ]
    same = LanSettings(roots=(root,), revocations=(listed,))
    assert trust_digest(same, folder=tmp_path / "lan") == found[2]
    (tmp_path / "list.pem").write_bytes(b"a longer list")
    found.append(trust_digest(same, folder=tmp_path / "lan"))
    keys = LanKeys(tmp_path / "lan")
    keys.keep_revocations(b"what was fetched")
    found.append(trust_digest(same, folder=tmp_path / "lan"))
    (tmp_path / "secret").write_bytes(b"a secret that all of us share")
    found.append(trust_digest(LanSettings(group_key_file=group), folder=tmp_path / "lan"))
    assert len(set(found)) == len(found)


TOML = """sources = []

[discovery.udp]
port = 54321

[discovery.trust]
useUnverified = true
KEY = VALUE
"""
YAML = """discovery:
  udp:
    port: 54321
  trust:
    KEY: VALUE
"""
#: What is written, and what is wrong with it: code, and the words that name the file.
FLAWS = {
    "roots": ('["nofile.pem"]', "LAN_TRUST", "nofile.pem: it cannot be read: No such file"),
    "intermediates": ('["folder"]', "LAN_TRUST", "folder: it cannot be read: Is a directory"),
    "revocations": ('["noise"]', "LAN_REVOCATIONS", "noise: a list of revoked certificates is refused"),
    "groupKeyFile": ('"nofile.key"', "STORAGE", "nofile.key: "),
    "renewFrom": ('"folder"', "CA_FOLDER", "folder: there is no certificate authority"),
    "authority": ('"folder"', "CA_FOLDER", "folder: there is no certificate authority"),
}


@pytest.fixture(autouse=True)
def flawed_settings(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "noise").write_text("noise")
    return tmp_path


def said(settings, flawed_settings):
    with pytest.raises(SkillwireError) as caught:
        load_trust(settings, folder=flawed_settings / "lan")
    return caught.value


@pytest.mark.parametrize("key", FLAWS)
def test_in_the_users_settings(flawed_settings, key, monkeypatch):
    written, code, words = FLAWS[key]
    monkeypatch.setenv("SKILLWIRE_HOME", str(flawed_settings))
    (flawed_settings / "config").mkdir()
    for name in ("folder", "noise"):
        (flawed_settings / name).rename(flawed_settings / "config" / name)
    file = flawed_settings / "config" / "skillwire.toml"
    file.write_text(TOML.replace("KEY", key).replace("VALUE", written))
    error = said(
        join_discovery(load_settings(flawed_settings, os.environ).discovery, read_discovery_file), flawed_settings
    )
    assert error.code == code
    assert str(flawed_settings / "config" / words.partition(":")[0]) in error.message
    assert words.partition(":")[2] in error.message
    assert error.place is not None
    assert (error.place.source, error.place.line, error.place.column) == (str(file), 8, 1)
    assert error.place.excerpt is not None
    assert error.place.excerpt.startswith(key)
    if code == "LAN_TRUST":
        assert error.fix is not None
        assert str(flawed_settings / "config") in error.fix


@pytest.mark.parametrize("key", FLAWS)
@pytest.mark.parametrize("form", ["discovery.yaml", "discovery.toml"])
def test_in_a_file_of_its_own(flawed_settings, key, form):
    written, code, words = FLAWS[key]
    file = flawed_settings / form
    text = YAML if form.endswith("yaml") else TOML.replace("sources = []\n", "")
    file.write_text(text.replace("KEY", key).replace("VALUE", written))
    named = DiscoverySource(str(file), SourceLocation(str(file)), is_project=False)
    error = said(join_discovery([named], read_discovery_file), flawed_settings)
    assert error.code == code
    assert f"{flawed_settings}/{words}" in error.message
    assert error.place is not None
    assert (error.place.source, error.place.line) == (str(file), 5 if form.endswith("yaml") else 7)


def test_what_the_environment_and_programs_name_is_said_with_the_file_alone(flawed_settings):
    error = said(LanSettings(roots=(str(flawed_settings / "nofile.pem"),)), flawed_settings)
    assert error.place == SourceLocation(str(flawed_settings / "nofile.pem"))


def test_a_file_that_is_good_is_none_to_speak_of(flawed_settings):
    authority = AuthorityFolder.create(flawed_settings / "authority", "Test", time.time())
    settings = LanSettings(roots=(str(authority.root_file),), places={"roots": SourceLocation("x", 1)})
    assert load_trust(settings, folder=flawed_settings / "lan").revocations is not None


@pytest.mark.spec("SDP-trusted-key")
def test_trusted_keys_are_read_again_and_a_damaged_file_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "INSTALLED_SECONDS", 0.0)
    running = keys.LanKeys(tmp_path)
    assert running.trusted_key("pantry-pi") is None
    keys.LanKeys(tmp_path).keep_trusted("pantry-pi", bytes(32))
    assert running.trusted_key("pantry-pi") == bytes(32)
    running.trusted_file.write_text("[")
    assert running.trusted_key("pantry-pi") == bytes(32)
