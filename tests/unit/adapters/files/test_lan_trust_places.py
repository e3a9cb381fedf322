"""A file of trust that cannot be used is said with its name, and where the settings name it."""

from __future__ import annotations

import os
import time

import pytest

from skillwire.adapters.files.authority_folder import AuthorityFolder
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.files.settings_file import load_settings, read_discovery_file
from skillwire.errors import Place, SkillwireError
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.resolver.lan_settings import join_discovery
from skillwire.resolver.settings import DiscoverySource

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
def folder(tmp_path):
    """Give a folder of settings that has what is wrong."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "noise").write_text("noise")
    return tmp_path


def said(settings, folder):
    with pytest.raises(SkillwireError) as caught:
        load_trust(settings, folder=folder / "lan")
    return caught.value


@pytest.mark.parametrize("key", FLAWS)
def test_in_the_users_settings(folder, key, monkeypatch):
    written, code, words = FLAWS[key]
    monkeypatch.setenv("SKILLWIRE_HOME", str(folder))
    (folder / "config").mkdir()
    for name in ("folder", "noise"):
        (folder / name).rename(folder / "config" / name)
    file = folder / "config" / "skillwire.toml"
    file.write_text(TOML.replace("KEY", key).replace("VALUE", written))
    error = said(join_discovery(load_settings(folder, os.environ).discovery, read_discovery_file), folder)
    assert error.code == code
    assert str(folder / "config" / words.partition(":")[0]) in error.message
    assert words.partition(":")[2] in error.message
    assert error.place is not None
    assert (error.place.source, error.place.line, error.place.column) == (str(file), 8, 1)
    assert error.place.excerpt is not None
    assert error.place.excerpt.startswith(key)
    if code == "LAN_TRUST":
        assert error.fix is not None
        assert str(folder / "config") in error.fix


@pytest.mark.parametrize("key", FLAWS)
@pytest.mark.parametrize("form", ["discovery.yaml", "discovery.toml"])
def test_in_a_file_of_its_own(folder, key, form):
    written, code, words = FLAWS[key]
    file = folder / form
    text = YAML if form.endswith("yaml") else TOML.replace("sources = []\n", "")
    file.write_text(text.replace("KEY", key).replace("VALUE", written))
    named = DiscoverySource(str(file), Place(str(file)), is_project=False)
    error = said(join_discovery([named], read_discovery_file), folder)
    assert error.code == code
    assert f"{folder}/{words}" in error.message
    assert error.place is not None
    assert (error.place.source, error.place.line) == (str(file), 5 if form.endswith("yaml") else 7)


def test_what_the_environment_and_programs_name_is_said_with_the_file_alone(folder):
    error = said(LanSettings(roots=(str(folder / "nofile.pem"),)), folder)
    assert error.place == Place(str(folder / "nofile.pem"))


def test_a_file_that_is_good_is_none_to_speak_of(folder):
    authority = AuthorityFolder.create(folder / "authority", "Test", time.time())
    settings = LanSettings(roots=(str(authority.root_file),), places={"roots": Place("x", 1)})
    assert load_trust(settings, folder=folder / "lan").revocations is not None
