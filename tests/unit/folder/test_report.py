"""A report as text, JSON and SARIF."""

import json

import jsonschema_rs
import pytest

from skillwire.codes import CODES
from skillwire.errors import SourceLocation
from skillwire.folder.report import CheckFinding, by_place, cause, json_document, sarif_document, summary, text_lines
from skillwire.folder.rules import RULES
from skillwire.model.skill import Finding

ONE = Finding(
    "NAME_FOLDER", "error", "the names differ", SourceLocation("a/SKILL.md", 2, 1, 5, "name: x"), "Rename it."
)


def text(finding):
    return "\n".join("".join(part.text for part in line) for line in text_lines(finding))


def test_text():
    assert text(ONE) == (
        "error[NAME_FOLDER]: the names differ\n"
        "  --> a/SKILL.md:2:1\n"
        "   |\n"
        " 2 | name: x\n"
        "   | ^^^^\n"
        f"   = cause: {RULES['NAME_FOLDER'].cause}\n"
        "   = fix: Rename it.\n"
    )


def test_the_parts_that_matter_have_roles():
    roles = {part.role for line in text_lines(ONE) for part in line}
    assert roles == {"error", "strong", "faint", ""}


@pytest.mark.parametrize(
    ("place", "line", "marks"),
    [
        (SourceLocation("f", 12, 3, None, "abcdef"), " 12 | abcdef", "    |   ^"),
        (SourceLocation("f", 1, 4, 6, "日本語x\u202ey"), " 1 | 日本語x[U+202E]y", "   |       ^^^^^^^^^"),
        (SourceLocation("f", 1, 2, 3, "\tx"), " 1 |     x", "   |     ^"),
        (SourceLocation("f", 1, 3, 4, "e\u0301xy"), " 1 | e\u0301xy", "   |  ^"),
        (SourceLocation("f", 1, 9, 12, "short"), " 1 | short", "   |      ^"),
        (SourceLocation("f", 1, None, None, "x"), " 1 | x", "   | ^"),
    ],
)
def test_the_mark_stands_below_what_it_marks(place, line, marks):
    lines = text(ONE._replace(place=place)).split("\n")
    assert lines[3:5] == [line, marks]


def test_without_a_line_there_is_no_excerpt():
    assert "|" not in text(ONE._replace(place=SourceLocation("a")))


def test_nothing_hidden_gets_into_a_report():
    bad = Finding(
        "NAME_FOLDER", "error", "a\x1b[31mb", SourceLocation("\x1b]0;x\x07/S\udcff.md", 1, 1, 2, "\u202ex"), "f\rg"
    )
    for report in (
        text(bad),
        json.dumps(json_document([bad], []), ensure_ascii=False),
        json.dumps(sarif_document([bad])),
    ):
        assert not {"\x1b", "\u202e", "\r", "\x07", "\udcff"} & set(report)


def test_findings_are_told_file_by_file_from_the_top():
    places = [
        SourceLocation("b", 1),
        SourceLocation("a", 9, 1),
        SourceLocation("a", 2, 5),
        SourceLocation("a", 2, 1),
        SourceLocation("a"),
    ]
    levels = ["note", "error", "error", "warning", "note"]
    findings = [Finding("SECRET", level, "", place, "") for level, place in zip(levels, places, strict=True)]  # type: ignore[arg-type]  # the three levels
    assert [str(finding.place) for finding in by_place(findings)] == ["a", "a:2:5", "a:2:1", "a:9:1", "b:1"]


def test_the_summary_counts():
    findings = [ONE, ONE._replace(level="warning"), ONE._replace(level="warning"), ONE._replace(level="note")]
    assert summary(findings, "a") == "checked a: 1 error, 2 warnings, 1 note"
    assert summary([], "3 skills") == "checked 3 skills: no findings"


def test_every_code_has_a_cause():
    assert all(cause(code) for code in (*RULES, *CODES))


def test_rules_and_codes_do_not_share_a_name():
    assert RULES.keys() & CODES.keys() == set()


def test_json():
    assert json_document([ONE], ["a"]) == {
        "checked": ["a"],
        "errors": 1,
        "warnings": 0,
        "notes": 0,
        "findings": [
            CheckFinding(
                code="NAME_FOLDER",
                level="error",
                message="the names differ",
                cause=RULES["NAME_FOLDER"].cause,
                fix="Rename it.",
                place=SourceLocation("a/SKILL.md", 2, 1, 5, "name: x"),
            )
        ],
    }


def strict_object(required, **properties):
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


TEXT = strict_object("text", text={"type": "string", "minLength": 1})
LEVEL = {"enum": ["none", "note", "warning", "error"]}
POSITIVE = {"type": "integer", "minimum": 1}
#: The part of SARIF 2.1.0 that a report uses, as its specification has it (sections 3.13 to 3.49).
SARIF = strict_object(
    "version runs",
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": strict_object(
            "tool results",
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            tool=strict_object(
                "driver",
                driver=strict_object(
                    "name",
                    name={"type": "string"},
                    semanticVersion={"type": "string"},
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": strict_object(
                            "id",
                            id={"type": "string"},
                            shortDescription=TEXT,
                            fullDescription=TEXT,
                            help=TEXT,
                            defaultConfiguration=strict_object("level", level=LEVEL),
                        ),
                    },
                ),
            ),
            results={
                "type": "array",
                "items": strict_object(
                    "message",
                    ruleId={"type": "string"},
                    ruleIndex={"type": "integer", "minimum": -1},
                    level=LEVEL,
                    message=TEXT,
                    locations={
                        "type": "array",
                        "items": strict_object(
                            "physicalLocation",
                            physicalLocation=strict_object(
                                "artifactLocation",
                                artifactLocation=strict_object(
                                    "uri", uri={"type": "string", "format": "uri-reference"}
                                ),
                                region=strict_object(
                                    "startLine", startLine=POSITIVE, startColumn=POSITIVE, endColumn=POSITIVE
                                ),
                            ),
                        ),
                    },
                ),
            },
        ),
    },
)


def test_sarif_is_of_the_shape_that_its_specification_gives():
    findings = [
        ONE,
        Finding("SECRET", "warning", "m", SourceLocation("/abs/ü b.md"), "f"),
        Finding("YAML_SYNTAX", "error", "m", SourceLocation("a/\udcff.md", 3), "f"),
        *(Finding(code, "note", "m", SourceLocation("a"), "f") for code in (*RULES, *CODES)),
    ]
    document = sarif_document(findings)
    validator = jsonschema_rs.Draft202012Validator(SARIF, validate_formats=True, offline=True)
    assert [str(error) for error in validator.iter_errors(document)] == []
    [run] = document["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    locations = [result["locations"][0]["physicalLocation"] for result in run["results"][:3]]
    assert locations[0] == {
        "artifactLocation": {"uri": "a/SKILL.md"},
        "region": {"startLine": 2, "startColumn": 1, "endColumn": 5},
    }
    assert locations[1] == {"artifactLocation": {"uri": "file:///abs/%C3%BC%20b.md"}}
    assert locations[2]["artifactLocation"] == {"uri": "a/%FF.md"}
