"""``skillwire explain``: every code, in its group, with what its error really does."""

import json
import re

import pytest

from skillwire import errors
from skillwire.cli.explain import explanations, schema_of
from skillwire.cli.main import run
from skillwire.codes import CODES
from skillwire.folder.rules import RULES
from skillwire.folder.schemas import SCHEMAS

ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SkillwireError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_ends_a_command_with_the_exit_code_of_its_code(kind):
    ends = {code: kind(code, "it fails").exit_code for code in CODES}
    assert ends == {code: kind.exit_code if row.exit_code is None else row.exit_code for code, row in CODES.items()}


def test_every_code_stands_in_a_section_and_every_rule_has_an_example():
    known = explanations()
    assert not [code for code, row in known.items() if not row.group]
    assert not [code for code in RULES if not known[code].example]
    assert known["URL"].group == "addresses"
    assert known["FIELD_UNKNOWN"].example == "licence: MIT"


def test_no_advice_names_a_page_that_an_installation_lacks():
    assert not [code for code, row in explanations().items() if "docs/" in f"{row.cause} {row.fix}"]


def test_no_code_is_both_an_error_and_a_rule_and_none_is_forgotten():
    known = explanations()
    assert not CODES.keys() & RULES.keys()
    assert list(known) == [*CODES, *RULES]


@pytest.mark.parametrize("typed", ["digest_mismatch", "DIGEST-MISMATCH", "[DIGEST_MISMATCH]"])
def test_a_code_is_found_however_it_is_written(capsys, typed):
    assert run(["explain", typed]) == 0
    said = capsys.readouterr().out
    assert said.startswith("DIGEST_MISMATCH  error: resolving and installing\n")
    assert "\nexit code  4\n" in said


def test_a_rule_says_its_levels_and_shows_an_example(capsys):
    assert run(["explain", "FLOW_STYLE", "HIDDEN_TEXT"]) == 0
    rule, _, error = capsys.readouterr().out.partition("\nHIDDEN_TEXT")
    assert re.search(r"^strict +error\nlenient +not applied\n", rule, re.MULTILINE)
    assert rule.endswith('for example\n  metadata: {author: example-corp, version: "1.0.0"}\n')
    assert "exit code  none" in error


def test_an_unknown_code_is_answered_with_the_closest(capsys):
    assert run(["explain", "digest_mismach"]) == 2
    assert "fix: Did you mean DIGEST_MISMATCH?" in capsys.readouterr().err


def test_without_a_code_all_are_listed_by_group(capsys):
    assert run(["explain"]) == 0
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("Resolving and installing")]
    assert all(f"\n  {code} " in said for code in [*CODES, *RULES])


def test_the_document_holds_everything(capsys):
    assert run(["explain", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "skillwire/explain/1"
    rows = {row["code"]: row for row in document["codes"]}
    assert rows.keys() == CODES.keys() | RULES.keys()
    assert rows["TIMEOUT"]["retryable"] is True
    assert rows["NOT_READY"]["exit_code"] is None
    assert {row["documentation"] for row in rows.values()} == {None}


def test_links_lead_to_the_site_that_is_configured(capsys, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_DOCS_URL", "https://docs.example.com/skillwire/")
    assert run(["explain", "USAGE", "FIELD_UNKNOWN", "--json"]) == 0
    error, rule = json.loads(capsys.readouterr().out)["codes"]
    assert error["documentation"] == "https://docs.example.com/skillwire/reference/codes.html#usage"
    assert rule["documentation"] == "https://docs.example.com/skillwire/reference/lint-rules.html#field_unknown"
    assert run(["show", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["documentation"] == error["documentation"]


@pytest.mark.parametrize("name", ["skill.toml", "SKILL.md", "find/1"])
def test_a_schema_is_printed_by_its_name(name, capsys):
    assert run(["explain", "--schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == {**SCHEMAS, "find/1": schema_of("find/1")}[name]


@pytest.mark.parametrize("arguments", [["--schema", "skill.tml"], ["--schema", "skill.toml", "USAGE"]])
def test_a_schema_is_named_alone_and_exactly(arguments, capsys):
    assert run(["explain", *arguments]) == 2
    assert ("Did you mean skill.toml?" in capsys.readouterr().err) is (len(arguments) == 2)
