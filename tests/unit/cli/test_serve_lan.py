"""What serve --lan reads, and from where."""

import pytest

from skillwire.cli.main import run
from skillwire.cli.serve import read_goodbye_reason, read_lan
from skillwire.errors import SkillwireError, UsageError, ValidationError
from skillwire.protocols.skill_discovery.settings import LanSettings

CONFIGURED = LanSettings(port=5001)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def read(configured=None, *, lan=True, interfaces=(), discovery=None):
    return read_lan(configured, lan=lan, interfaces=interfaces, discovery=discovery)


def test_without_lan_there_is_none():
    assert read(CONFIGURED, lan=False) is None


@pytest.mark.parametrize("options", [{"interfaces": ("eth0",)}, {"discovery": "lan.yaml"}])
def test_its_options_mean_nothing_without_it(options):
    with pytest.raises(UsageError, match="requires --lan"):
        read(lan=False, **options)


def test_a_scene_that_no_datagram_can_name_is_refused_before_anything_is_served(tmp_path, capsys):
    assert run(["serve", str(tmp_path), "--lan", "--scene", "auth", "--scene", "b ad"]) == 2
    assert "error[USAGE]: SCENE 'b ad' is not a valid name" in capsys.readouterr().err
    assert run(["serve", str(tmp_path), "--lan", "--scene", "s" * 119]) == 2
    told = capsys.readouterr().err
    assert f"SCENE {'s' * 20}... is 119 characters long" in told
    assert "Shorten it to 118" in told


def test_a_network_that_is_off_is_not_announced_on():
    with pytest.raises(UsageError, match="announces nothing"):
        read(LanSettings(multicast=False, mdns=False))
    assert read(LanSettings(multicast=False)) == LanSettings(multicast=False)


def test_the_usual_unless_something_is_said():
    assert read() == LanSettings()


def test_what_is_nearest_counts(tmp_path):
    (tmp_path / "skillwire.toml").write_text("[discovery.udp]\nport = 5002\n")
    assert read().port == 5002
    assert read(CONFIGURED).port == 5001
    (tmp_path / "lan.yaml").write_text("discovery:\n  udp:\n    port: 5003\n")
    assert read(CONFIGURED, discovery=str(tmp_path / "lan.yaml")).port == 5003
    (tmp_path / "lan.toml").write_text("[discovery.udp]\nport = 5004\n")
    assert read(CONFIGURED, discovery=str(tmp_path / "lan.toml")).port == 5004


def test_interfaces_stand_over_all():
    assert read(LanSettings(port=5001, interfaces=("eth1",)), interfaces=("eth0", "lo")) == LanSettings(
        port=5001, interfaces=("eth0", "lo")
    )


def test_a_file_that_is_wrong_is_said_with_its_place(tmp_path):
    (tmp_path / "lan.yaml").write_text("discovery:\n  udp:\n    prot: 5003\n")
    with pytest.raises(ValidationError) as caught:
        read(discovery=str(tmp_path / "lan.yaml"))
    assert caught.value.place
    assert (caught.value.code, caught.value.place.line) == ("DISCOVERY_CONFIGURATION", 3)


def test_a_goodbye_is_what_the_files_say_when_it_is_said(tmp_path):
    config, discovery = tmp_path / "server.toml", tmp_path / "lan.yaml"
    assert read_goodbye_reason(None, None) == "SHUTDOWN"
    (tmp_path / "skillwire.toml").write_text('[discovery]\ngoodbye = "MAINTENANCE"\n')
    config.write_text('[discovery]\ngoodbye = "UPGRADE"\n')
    discovery.write_text("discovery:\n  udp:\n    port: 5003\n")
    assert read_goodbye_reason(None, None) == "MAINTENANCE"
    assert read_goodbye_reason(str(config), None) == "UPGRADE"
    assert read_goodbye_reason(str(config), str(discovery)) == "SHUTDOWN"
    config.unlink()
    with pytest.raises(SkillwireError):
        read_goodbye_reason(str(config), None)
