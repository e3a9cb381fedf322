"""``[health]`` of skill.toml: a function of the folder or a URL, by what the action is, and how it is said wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillwire.adapters.files.skill_rows import pack_skill, unpack_skill
from skillwire.folder.action import action_of
from skillwire.folder.manifest import parse_manifest, read_manifest
from skillwire.folder.publish import Prepared, prepare
from skillwire.model.action import HealthCheck

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNTIME = '[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
HTTP = (
    'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com:8443/v1/{id}"\n'
    "[inputs.id]\nrequired = true\n"
)


def health(text: str) -> HealthCheck | None:
    return action_of(parse_manifest(text.encode())).health


@pytest.mark.parametrize(
    ("said", "check"),
    [
        ("", HealthCheck("", "main.py", "health", 30, 5)),
        ('export = "check"\n', HealthCheck("", "main.py", "check", 30, 5)),
        (
            'entrypoint = "look.py"\ninterval = 5\ntimeout = 1\n',
            HealthCheck("", "look.py", "health", 5, 1),
        ),
    ],
)
def test_code_has_a_function_that_is_named_as_that_of_the_action(said: str, check: HealthCheck) -> None:
    assert health(f"{RUNTIME}[health]\n{said}") == check


@pytest.mark.parametrize(
    ("url", "asked", "network"),
    [
        ("/healthz?deep=1", "https://api.example.com:8443/healthz?deep=1", ("https://api.example.com:8443",)),
        (
            "https://Status.example.com/",
            "https://status.example.com/",
            ("https://api.example.com:8443", "https://status.example.com"),
        ),
    ],
)
def test_an_api_is_asked_at_a_url_whose_origin_is_a_permission(url: str, asked: str, network: tuple[str, ...]) -> None:
    action = action_of(parse_manifest(f'{HTTP}[health]\nurl = "{url}"\n'.encode()))
    assert action.health == HealthCheck(asked)
    assert action.permissions.network == network


def test_a_skill_that_says_nothing_has_no_check() -> None:
    assert health(RUNTIME) is health(HTTP) is None


NOT_RUN = "[health] is for an action with [runtime], or with an [executor] of kind http"
NO_URL = "an executor of kind http is asked at a url"
FORM = "url is https, or a path such as /healthz, without a fragment"


@pytest.mark.parametrize(
    ("text", "code", "message", "line"),
    [
        ("health = 1\n", "FIELD", "health is a table", 1),
        ("[health]\n", "FIELD", NOT_RUN, 1),
        ('kind = "instruction"\n[health]\nexport = "a"\n', "FIELD", NOT_RUN, 2),
        ('kind = "action"\n[executor]\nkind = "human"\n[health]\n', "FIELD", NOT_RUN, 4),
        ('[executor]\nkind = "http"\nurl = "https://a.example.com/"\n[health]\nurl = "/x"\n', "FIELD", NOT_RUN, 4),
        (f'{RUNTIME}[health]\nurl = "/x"\n', "FIELD", "url is for an executor of kind http", 5),
        (f'{RUNTIME}[health]\nexport = "a b"\n', "EXPORT", "is not the name of a function", 5),
        (f'{RUNTIME}[health]\nentrypoint = "../a.py"\n', "ENTRYPOINT", "entrypoint", 5),
        (f'{RUNTIME}[health]\nentrypoint = "check.sh"\n', "ENTRYPOINT", "is not a Python file of the folder", 5),
        (f"{RUNTIME}[health]\ninterval = 4\n", "FIELD", "interval is a whole number from 5 to 3600", 5),
        (f"{RUNTIME}[health]\ninterval = 3601\n", "FIELD", "interval is a whole number from 5 to 3600", 5),
        (f"{RUNTIME}[health]\ninterval = 7.5\n", "FIELD", "interval is a whole number", 5),
        (f"{RUNTIME}[health]\ntimeout = 0\n", "FIELD", "timeout is a whole number from 1 to 30", 5),
        (f"{RUNTIME}[health]\ntimeout = 31\n", "FIELD", "timeout is a whole number from 1 to 30", 5),
        (f"{HTTP}[health]\n", "FIELD", NO_URL, 7),
        (f'{HTTP}[health]\nurl = "/x"\nexport = "a"\n', "FIELD", "export is for code of the folder", 9),
        (f'{HTTP}[health]\nurl = "/x"\nentrypoint = "a.py"\n', "FIELD", "entrypoint is for code of the folder", 9),
        (f"{HTTP}[health]\nurl = 1\n", "FIELD", "url is text", 8),
        (f'{HTTP}[health]\nurl = "http://a.example.com/"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "healthz"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "//a.example.com/"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "/x#y"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "/v1/../../x"\n', "FIELD", "dots that lead elsewhere", 8),
        (f'{HTTP}[health]\nurl = "https://user@a.example.com/"\n', "URL", "", 8),
        (f'{HTTP}[health]\nurl = "/{{id}}"\n', "URL", "", 8),
        (f'{HTTP}[health]\nurl = "/${{KEY}}"\n', "URL", "", 8),
    ],
)
def test_what_a_folder_must_not_say(text: str, code: str, message: str, line: int) -> None:
    flaws = read_manifest(text.encode())[1]
    [(told, at)] = [(f"{flaw.code} {flaw.message}", flaw.place.line if flaw.place else None) for flaw in flaws]
    assert told.startswith(f"{code} ")
    assert message in told
    assert at == line
    assert flaws[0].diagnostics().fix


def test_unknown_fields_are_named() -> None:
    text = f'{RUNTIME}[health]\nexport = "check"\nevery = 5\n'
    assert parse_manifest(text.encode()).unknown == (("health", "every"),)


def test_the_function_must_be_there(found: Callable[..., list[str]]) -> None:
    files = {"main.py": "def main(args): ...\n", "skill.toml": f"{RUNTIME}[health]\n"}
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:4:2"]
    files["skill.toml"] = f'{RUNTIME}[health]\nexport = "check"\n'
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:5:1"]
    files["main.py"] += "def check(args): ...\n"
    assert found(**files) == []


def test_the_file_must_be_there_and_python(found: Callable[..., list[str]]) -> None:
    files = {"main.py": "def main(args): ...\n", "skill.toml": f'{RUNTIME}[health]\nentrypoint = "look.py"\n'}
    assert found(**files) == ["error ENTRYPOINT_ABSENT skill.toml:5:1"]
    assert found(**files, **{"look.py": "def health(args:\n"}) == ["error ENTRYPOINT_BROKEN look.py:1:11"]
    assert found(**files, **{"look.py": "def health(args): ...\n"}) == []


def test_what_is_wrong_with_one_file_is_said_once(found: Callable[..., list[str]]) -> None:
    manifest = {"skill.toml": f"{RUNTIME}[health]\n"}
    assert found(**manifest) == ["error ENTRYPOINT_ABSENT skill.toml:3:1"]
    assert found(**manifest, **{"main.py": "def main(\n"}) == ["error ENTRYPOINT_BROKEN main.py:1:9"]


@pytest.mark.parametrize("said", ["", '[health]\nexport = "check"\ninterval = 60\n'])
def test_a_published_skill_keeps_it(write: Callable[..., Path], said: str) -> None:
    code = "def main(args): ...\ndef check(args): ...\n"
    outcome = prepare(write(**{"skill.toml": RUNTIME + said, "main.py": code}), "acme")
    assert isinstance(outcome, Prepared), outcome
    assert outcome.skill.action is not None
    assert (outcome.skill.action.health is None) == (not said)
    assert unpack_skill(pack_skill(outcome.skill)) == outcome.skill
