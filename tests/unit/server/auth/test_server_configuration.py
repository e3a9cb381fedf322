"""The server's configuration file: what it says, what it must not say, and that every key is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillwire.errors import DecodeError, SkillwireError, StorageError, UsageError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.messages import AuthType
from skillwire.server.auth.configuration import TABLES, ServerConfiguration, read_configuration
from skillwire.server.auth.files import load_configuration, load_credentials
from skillwire.server.auth.oauth import issuer_policy
from skillwire.server.auth.offer import auth_config, required_auth
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.trust.address import AddressPolicy

FULL = """
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
"""


def read(text):
    return read_configuration(text.encode(), "server.toml")


def test_full_file_is_read():
    found = read(FULL)
    assert (found.offer, found.principal_limit, found.anonymous_limit) == ("oauth2", RateLimit(60, 5), RateLimit(30, 3))
    assert found.oauth2
    assert found.oauth2.issuer == "https://auth.example.com/realms/x"
    assert found.oauth2.allow_untyped
    assert found.grants.subjects["alice"] == {"forecast"}
    assert found.grants.clients["app-1"] == {"*"}
    assert found.grants.scopes["read:weather"] == {"forecast", "maps"}


def test_every_key_of_the_full_file_is_one_that_exists_and_the_other_way_round():
    said = {key for keys in TABLES.values() for key in keys}
    assert {key for key in said if not re.search(rf"^{key} = ", FULL, re.MULTILINE)} == {"client_secret_file"}


def test_empty_file_says_the_defaults():
    assert read("") == ServerConfiguration()


WRONG = {
    "[oauth]\n": (1, "Did you mean oauth2?"),
    "[zzz]\n": (1, "Known are auth, oauth2, grants, rate_limit."),
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
    page = (Path(__file__).parents[4] / "docs" / "reference" / "server-configuration.md").read_text()
    for table, keys in TABLES.items():
        section = page.split(f"\n## `[{table}]`\n")[1].split("\n## ")[0]
        for key, meaning in keys.items():
            assert f"| `{key}` | {meaning} |" in section, f"{table}.{key}"
    example = page.split("```toml\n")[1].split("```")[0]
    assert read(example).oauth2
