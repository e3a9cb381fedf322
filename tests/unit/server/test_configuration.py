"""The server's configuration file: what it says, what it must not say, and that every key is documented."""

import re
from pathlib import Path

import pytest

from skillwire.errors import DecodeError, SkillwireError, SourceLocation, StorageError, UsageError, ValidationError
from skillwire.model.execution import ExecutionSettings, RunSettings
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.protocols.skill_sharing.messages import AuthType
from skillwire.server.auth.authentication import auth_config, required_auth
from skillwire.server.auth.oauth import issuer_policy
from skillwire.server.configuration import (
    BridgeSettings,
    McpSettings,
    ServerConfiguration,
    examine_configuration,
    load_configuration,
    load_credentials,
    read_configuration,
)
from skillwire.server.configuration_keys import TABLES
from skillwire.server.quotas import RateLimit
from skillwire.trust.address import AddressPolicy

FULL = """
[serve]
folders = ["skills", "/srv/more"]
registry = true
host = "0.0.0.0"
port = 8080
base_url = "https://skills.example.com/team/"
publisher = "acme"
poll_seconds = 0.5
access_log = false
store = "postgresql://database.example/skillwire"
log_format = "json"
lan = true
dht = true
scenes = ["office"]

[http]
trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]

[auth]
offer = "oauth2"

[oauth2]
issuer = "https://auth.example.com/realms/x"
audience = "https://skills.example.com/"
jwks_url = "http://keys.internal/jwks"
introspection_url = "https://auth.example.com:8443/introspect"
client_id = "skills"
client_secret_env = "SKILLS_SECRET"
authorization_url = "https://auth.example.com/authorize"
token_url = "https://auth.example.com/token"
sign_in = "linked"
allow_untyped = true
scopes = { "skill:*" = "Use every skill" }

[grants]
subjects = { alice = ["forecast"] }
clients = { "app-1" = ["*"] }
scopes = { "read:weather" = ["forecast", "maps"] }

[rate_limit]
principal_per_minute = 60
principal_burst = 5
anonymous_per_minute = 30
anonymous_burst = 3

[executions]
concurrency = 0
per_caller = 2
per_skill = 3
waiting = 4
longest_seconds = 5
longest_task_seconds = 6
lease_seconds = 7
keep_outputs_days = 1
keep_executions_days = 2
grant_all = true
secrets_file = "secrets.toml"
allow = ["10.0.0.0/8", "api.internal"]
allow_callbacks = ["hooks.internal"]

[rpc]
execute_skill = true
run_code = "authenticated"
blob_bytes = 1000
blobs_per_owner = 2000
blob_hours = 3
origins = ["https://app.example.com"]

[mcp]
serve = false
require = "authenticated"
pin = ["forecast"]

[bridges]
ai_catalog = "1.0"
agent_card = "1.0"

[site]
title = "Skills of Example"
intro = "Made *here*."
logo = "logo.svg"
contact = "platform@example.com"
featured = ["forecast", "acme/pdf"]

[console]
operators = ["alice", "group:platform"]
task_workers = ["bob"]

[discovery]
agentId = "agent-001"

[discovery.udp]
port = 54322

[discovery.trust]
roots = ["root.pem"]
"""


def read(text):
    return read_configuration(text.encode(), "server.toml")


def test_full_file_is_read():
    found = read(FULL)
    assert (found.offer, found.principal_limit, found.anonymous_limit) == ("oauth2", RateLimit(60, 5), RateLimit(30, 3))
    assert found.oauth2
    assert found.oauth2.issuer == "https://auth.example.com/realms/x"
    assert found.oauth2.allow_untyped
    assert found.oauth2.sign_in == "linked"
    assert found.grants.subjects["alice"] == {"forecast"}
    assert found.grants.clients["app-1"] == {"*"}
    assert found.grants.scopes["read:weather"] == {"forecast", "maps"}
    assert found.executions == ExecutionSettings(
        concurrency=0,
        per_caller=2,
        per_skill=3,
        waiting=4,
        longest=5,
        longest_task=6,
        lease=7,
        keep_outputs=86_400,
        keep_executions=2 * 86_400,
        grant_all=True,
        secrets_file="secrets.toml",
        allow=("10.0.0.0/8", "api.internal"),
        allow_callbacks=("hooks.internal",),
    )
    assert found.runs == RunSettings(
        execute_skill=True,
        run_code="authenticated",
        blob_bytes=1000,
        blobs_per_owner=2000,
        blob_seconds=3 * 3600,
        origins=("https://app.example.com",),
    )
    assert found.bridges == BridgeSettings("1.0", "1.0")
    assert found.trusted_proxies == ("127.0.0.1/32", "10.0.0.0/8")
    assert found.mcp == McpSettings(serve=False, require="authenticated", pins=("forecast",))
    about = ("Skills of Example", "Made *here*.", None, "platform@example.com", ("forecast", "acme/pdf"))
    assert (found.site, found.site.contact_url, found.logo) == (about, "mailto:platform@example.com", "logo.svg")
    assert found.console == (frozenset({"alice", "group:platform"}), frozenset({"bob"}))
    assert found.discovery == LanSettings(agent_id="agent-001", port=54322, roots=("root.pem",))
    assert found.serve == {
        "folders": ("skills", "/srv/more"),
        "registry": True,
        "host": "0.0.0.0",  # noqa: S104  # read, not listened on
        "port": 8080,
        "base_url": "https://skills.example.com/team",
        "publisher": "acme",
        "poll": 0.5,
        "access_log": False,
        "store": "postgresql://database.example/skillwire",
        "log_format": "json",
        "lan": True,
        "dht": True,
        "scenes": ("office",),
    }


def test_every_key_of_the_full_file_is_one_that_exists_and_the_other_way_round():
    said = {key for keys in TABLES.values() for key in keys}
    assert {key for key in said if not re.search(rf"^{key} = ", FULL, re.MULTILINE)} == {"client_secret_file"}


def test_empty_file_says_the_defaults():
    assert read("") == ServerConfiguration()


WRONG = {
    "[serve]\nport = 65536\n": (2, None),
    "[serve]\nport = '80'\n": (2, None),
    "[serve]\npoll_seconds = 0\n": (2, None),
    "[serve]\nbase_url = 'skills.example.com'\n": (2, None),
    "[serve]\npublisher = 'No Name'\n": (2, None),
    "[serve]\nbase-url = 'https://a.example'\n": (2, "Did you mean base_url?"),
    "[executions]\nconcurrency = -1\n": (2, None),
    "[executions]\ngrant_all = 1\n": (2, None),
    '[executions]\nallow = ["http://["]\n': (2, None),
    '[executions]\nallow_callbacks = ["http://["]\n': (2, None),
    "[rpc]\nrun_code = 'yes'\n": (2, None),
    "[rpc]\nblob_bytes = 0\n": (2, None),
    "[rpc]\nblob_hours = 1.5\n": (2, None),
    "[bridges]\nai_catalog = '0.9'\n": (2, None),
    "[bridges]\nagent_card = true\n": (2, None),
    "[mcp]\nserve = 1\n": (2, None),
    "[mcp]\nrequire = true\n": (2, None),
    "[mcp]\npin = ['No Skill']\n": (2, None),
    "[rpc]\norigins = ['https://app.example.com/page']\n": (2, None),
    "[rpc]\norigins = ['app']\n": (2, None),
    "[http]\ntrusted_proxies = ['*']\n": (2, None),
    "[http]\ntrusted_proxies = [true]\n": (2, None),
    "[oauth]\n": (1, "Did you mean oauth2?"),
    "[zzz]\n": (1, f"Known are {', '.join(TABLES)}."),
    "auth = 1\n": (1, "Write [auth]"),
    "[auth]\nofer = 'api_key'\n": (2, "Did you mean offer?"),
    "[auth]\noffer = 'basic'\n": (2, None),
    "[auth]\noffer = ['api_key']\n": (2, None),
    "[auth]\noffer = 'oauth2'\n": (2, "offer api_key"),
    "[oauth2]\naudience = 'a'\n": (1, "Write issuer"),
    "[oauth2]\nissuer = 'https://a.example'\n": (1, "Write audience"),
    "[oauth2]\nissuer = 'a.example'\naudience = 'a'\n": (2, None),
    "[oauth2]\nissuer = 'https://u:p@a.example'\naudience = 'a'\n": (2, None),
    "[oauth2]\nissuer = 'https://a.example'\naudience = ''\n": (3, None),
    "[oauth2]\nissuer = 'https://a.example'\naudience = ['a']\n": (3, None),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nallow_untyped = 'no'\n": (4, None),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nclient_id = 'x'\n": (1, "none of the three"),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nsign_in = 'anyone'\n": (4, "Write client_id"),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nsign_in = 'yes'\n": (4, None),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nclient_secret_env = 'X'\n": (4, "none of the three"),
    "[oauth2]\nissuer = 'https://a.example'\naudience = 'a'\nscopes = ['a']\n": (4, None),
    "[grants]\nsubjects = ['a']\n": (2, None),
    "[grants]\nsubjects = { a = 'b' }\n": (2, None),
    "[grants]\nclients = { a = ['No Skill'] }\n": (2, None),
    "[grants]\nclients = { a = [7] }\n": (2, None),
    "[rate_limit]\nprincipal_burst = 0\n": (2, None),
    "[rate_limit]\nanonymous_per_minute = true\n": (2, None),
    "[rate_limit]\nanonymous_per_minute = 1.5\n": (2, None),
}


@pytest.mark.parametrize(
    ("text", "line", "fix"), [(text, *said) for text, said in WRONG.items()], ids=range(len(WRONG))
)
def test_what_is_wrong_is_said_with_its_line_and_what_to_do(text, line, fix):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.code == "SERVER_CONFIGURATION"
    assert caught.value.place
    assert (caught.value.place.source, caught.value.place.line) == ("server.toml", line)
    assert fix is None or fix in (caught.value.fix or "")


def test_what_is_wrong_with_discovery_is_said_where_it_stands():
    for text, line in (("[discovery]\n[discovery.udp]\nprot = 1\n", 3), ("[discovery]\nudp = 1\n", 2)):
        with pytest.raises(ValidationError) as caught:
            read(text)
        assert caught.value.place
        assert (caught.value.code, caught.value.place.line) == ("DISCOVERY_CONFIGURATION", line)
    with pytest.raises(UsageError, match="must be a table"):
        read("discovery = 1\n")


def test_files_that_discovery_names_lie_beside_the_configuration(tmp_path):
    (tmp_path / "server.toml").write_text(
        '[discovery.trust]\nroots = ["root.pem"]\nrenewFrom = "https://ca.example/"\n'
    )
    found = load_configuration(tmp_path / "server.toml").discovery
    assert found
    assert (found.roots, found.renew_from) == ((str(tmp_path / "root.pem"),), "https://ca.example/")


def test_every_problem_is_found_at_once(tmp_path):
    path = tmp_path / "server.toml"
    path.write_text(
        "[serve]\nport = 'a'\nhots = 'b'\n[zzz]\n[oauth2]\nissuer = 1\n[site]\nlogo = 'absent'\n"
        "[discovery.udp]\nprot = 1\nport = 'a'\n[auth]\noffer = 'oauth2'\n"
    )
    configuration, problems = examine_configuration(path)
    assert sorted((error.place and error.place.line) or 0 for error in problems) == [0, 2, 3, 4, 5, 6, 10, 11]
    assert (configuration.serve, configuration.oauth2) == ({}, None)
    with pytest.raises(UsageError) as caught:
        load_configuration(path)
    assert caught.value.message == problems[0].message


def test_folders_to_serve_begin_at_the_folder_of_the_file(tmp_path):
    (tmp_path / "server.toml").write_text('[serve]\nfolders = ["skills", "/srv/more"]\n')
    assert load_configuration(tmp_path / "server.toml").serve["folders"] == (str(tmp_path / "skills"), "/srv/more")


def test_what_is_not_toml_is_refused():
    for data in (b"[auth", b"\xff", b"a = 1\n" * 100_000):
        with pytest.raises(DecodeError):
            read_configuration(data, "server.toml")


def test_what_the_operator_wrote_is_named_and_nothing_else():
    configuration = read(FULL)
    assert configuration.oauth2
    policy = issuer_policy(AddressPolicy(), configuration.oauth2)
    for url in ("http://keys.internal/jwks", "https://auth.example.com:8443/introspect"):
        policy.check_url(parse_url(url))
    for url in ("http://other.internal/", "https://auth.example.com:9443/", "https://10.0.0.1/"):
        with pytest.raises(SkillwireError):
            policy.check_url(parse_url(url))


def test_descriptors_offer_what_the_file_says():
    assert auth_config(read("")).header == "X-API-Key"
    assert required_auth(read("")) == {"required_auth_type": "api_key", "header": "X-API-Key"}
    oauth2 = auth_config(read(FULL))
    assert oauth2.type is AuthType.OAUTH2
    assert oauth2.oauth2
    assert oauth2.oauth2.scopes == {"skill:*": "Use every skill"}
    assert required_auth(read(FULL)) == {
        "required_auth_type": "oauth2",
        "authorization_url": "https://auth.example.com/authorize",
        "token_url": "https://auth.example.com/token",
    }
    custom = read("[auth]\noffer = 'custom'\n")
    assert auth_config(custom).custom
    assert required_auth(custom) == {"required_auth_type": "custom", "header": "X-Signature"}


def test_secret_comes_from_the_environment_or_from_a_file_beside_the_configuration(tmp_path):
    path, secret = tmp_path / "server.toml", tmp_path / "secret"
    path.write_text(FULL)
    with pytest.raises(StorageError, match=r"the logo logo\.svg cannot be read: ") as caught:
        load_configuration(path)
    assert (caught.value.code, caught.value.place) == ("SERVER_CONFIGURATION", SourceLocation(str(path)))
    (tmp_path / "logo.svg").write_text("<svg />")
    found = load_credentials(load_configuration(path), {"SKILLS_SECRET": "shh"})
    assert found == ("skills", "shh")
    with pytest.raises(UsageError, match="SKILLS_SECRET"):
        load_credentials(load_configuration(path), {})
    path.write_text(FULL.replace('client_secret_env = "SKILLS_SECRET"', 'client_secret_file = "secret"'))
    secret.write_text("from a file\n")
    secret.chmod(0o644)
    with pytest.raises(StorageError) as caught:
        load_credentials(load_configuration(path), {})
    assert (caught.value.code, "chmod 600" in str(caught.value.fix)) == ("SERVER_CONFIGURATION", True)
    secret.chmod(0o600)
    assert load_credentials(load_configuration(path), {}) == ("skills", "from a file")
    for content in (b"", b"\xff", b"a\nb", b"a" * 5000):
        secret.write_bytes(content)
        with pytest.raises(SkillwireError):
            load_credentials(load_configuration(path), {})
    secret.unlink()
    with pytest.raises(StorageError):
        load_credentials(load_configuration(path), {})
    assert load_credentials(ServerConfiguration(), {}) is None


def test_every_key_is_documented():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "server-configuration.md").read_text()
    for table, keys in TABLES.items():
        section = page.split(f"\n## `[{table}]`\n")[1].split("\n## ")[0]
        for key, row in keys.items():
            assert f"\n- `{key}`: {row.meaning}" in section, f"{table}.{key}"
    example = page.split("```toml\n")[1].split("```")[0]
    assert read(example).oauth2


def test_the_file_names_the_queue_of_its_executions_whatever_it_holds(tmp_path, monkeypatch):
    file = tmp_path / "a.toml"
    for text in ("", "[executions]\nconcurrency = 1\n"):
        file.write_text(text)
        assert load_configuration(file).executions.queue == str(file)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    assert load_configuration(Path("below/../a.toml")).executions.queue == str(file)
    assert ServerConfiguration().executions.queue == ""


def test_the_file_of_secrets_lies_beside_the_configuration(tmp_path, monkeypatch):
    file = tmp_path / "etc" / "a.toml"
    file.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    file.write_text('[executions]\nsecrets_file = "keys.env"\n')
    assert load_configuration(Path("etc/a.toml")).executions.secrets_file == "etc/keys.env"
    file.write_text('[executions]\nsecrets_file = "/run/keys.env"\n')
    assert load_configuration(file).executions.secrets_file == "/run/keys.env"
