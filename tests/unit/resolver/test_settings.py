"""Whose word counts of the local network: the user's own file, a project's, or the environment's."""

import pytest

from skillwire.adapters.files.settings_file import load_settings, read_discovery_file
from skillwire.cli.main import run
from skillwire.errors import SkillwireError, UsageError
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.resolver.references import lan_capability, parse_reference
from skillwire.resolver.settings import OWN_DISCOVERY_KEYS, join_discovery


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give what writes the project's and the user's settings and returns what is in force."""
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    project.mkdir()
    monkeypatch.setenv("SKILLWIRE_HOME", str(home))
    monkeypatch.chdir(project)

    def read(own="", of_project="", environment=()):
        (home / "config" / "skillwire.toml").write_text(own)
        (project / "skillwire.toml").write_text(of_project)
        settings = load_settings(project, dict(environment))
        return join_discovery(settings.discovery, read_discovery_file)

    return read


def test_nothing_said_is_the_default(places):
    assert places() == LanSettings()


def test_both_files_are_joined_key_by_key(places):
    own = '[discovery.udp]\nport = 5000\ninterfaces = ["lo"]\n'
    own += '[discovery.trust]\nprofile = "signed"\nroots = ["root.pem"]\n'
    found = places(own, "[discovery.udp]\nport = 6000\n[discovery.cache]\nttl = 1000\n")
    assert (found.port, found.interfaces, found.profile, found.cache.ttl) == (6000, ("lo",), Profile.SIGNED, 1.0)
    assert found.roots[0].endswith("/home/config/root.pem")


@pytest.mark.parametrize(
    "text",
    [
        "[discovery.trust]\nuseUnverified = true",
        "[discovery.trust]\nuseUnverified = false",
        '[discovery.trust]\nprofile = "open"',
        '[discovery.trust]\nroots = ["theirs.pem"]',
        '[discovery.udp]\ninterfaces = ["lo"]',
        "[discovery.udp]\nttl = 8",
        '[discovery]\nagentId = "agent-001"',
        "[discovery.dht]\nenabled = true",
        '[discovery.dht]\nbootstrapNodes = [{ host = "theirs.example", port = 6881 }]',
        '[discovery]\n"trust.useUnverified" = true',
        '[discovery]\n"udp.ttl" = 8',
        "[discovery.discovery.trust]\nuseUnverified = true",
    ],
)
def test_a_project_cannot_say_whom_to_trust_or_how_far_to_speak(places, text):
    with pytest.raises(UsageError) as caught:
        places(of_project=text)
    assert caught.value.code == "SETTING_FORM"
    assert "project/skillwire.toml" in str(caught.value.place)


def test_what_is_the_users_own_is_named_as_the_configuration_names_it():
    from skillwire.protocols.skill_discovery.settings import KEYS  # noqa: PLC0415  # beside what it is for

    tables = {key.rpartition(".")[0] for key in KEYS}
    assert not [name for name in OWN_DISCOVERY_KEYS if name not in KEYS and name not in tables]


def test_a_file_of_the_environment_takes_the_place_of_all(places, tmp_path):
    written = tmp_path / "discovery.yaml"
    written.write_text("discovery:\n  udp:\n    enabled: true\n    multicastGroup: 224.0.0.1\n    port: 7000\n")
    found = places("[discovery.udp]\nport = 5000", "", {"SKILLWIRE_DISCOVERY": str(written)}.items())
    assert found == LanSettings(port=7000)
    (tmp_path / "discovery.toml").write_text("[discovery.trust]\nuseUnverified = true\n")
    found = places("", "", {"SKILLWIRE_DISCOVERY": str(tmp_path / "discovery.toml")}.items())
    assert found == LanSettings(use_unverified=True)


@pytest.mark.parametrize(
    ("own", "code"), [("discovery = 7", "SETTING_FORM"), ("[discovery.udp]\nprot = 1", "DISCOVERY_CONFIGURATION")]
)
def test_what_cannot_be_read_is_told_with_its_place(places, own, code):
    with pytest.raises(SkillwireError) as caught:
        places(own)
    assert caught.value.code == code
    assert "skillwire.toml" in str(caught.value.place)


def test_a_file_that_is_not_there_is_told(places):
    with pytest.raises(SkillwireError) as caught:
        places(environment={"SKILLWIRE_DISCOVERY": "nowhere.yaml"}.items())
    assert (caught.value.code, str(caught.value.place)) == ("STORAGE", "nowhere.yaml")


def test_the_settings_in_force_are_shown(places, capsys):
    places("[discovery.udp]\nport = 5000\n")
    assert run(["config", "show", "discovery", "--origin"]) == 0
    told = capsys.readouterr().out
    assert "5000" in told
    assert "skillwire.toml" in told
    assert run(["config", "show", "discovery", "--json"]) == 0
    assert '"port": 5000' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "capability"),
    [("lan:org-data-read", "org-data-read"), ("lan:a.B_1", "a.B_1"), ("lan:8080", None), ("lan:8080/skill", None),
     ("example.com/skill", None), ("lan", None)],
)  # fmt: skip
def test_a_reference_by_capability(text, capability):
    assert lan_capability(text) == capability


@pytest.mark.parametrize("text", ["lan:", "lan:a b", "lan:ä", f"lan:{'x' * 129}", "lan:a;b"])
def test_what_no_capability_is_called_is_refused(text):
    with pytest.raises(UsageError) as caught:
        lan_capability(text)
    assert caught.value.code == "REFERENCE"


def test_a_host_named_lan_is_still_a_host():
    assert parse_reference("lan:8080/skill").lookups[0].url.startswith("https://lan:8080/")
    with pytest.raises(UsageError):
        parse_reference("lan:org-data-read")
