"""The schemas of ``--json``: valid, closed, described to the last field, and one for every document that is printed."""

import ast
from pathlib import Path

import jsonschema_rs
import pytest
from tests.support.documents import check_document

from skillwire.cli import documents, documents_run
from skillwire.cli.explain import document_names, schema_of

SOURCES = [
    path
    for path in sorted((Path(__file__).parents[3] / "src" / "skillwire" / "cli").glob("*.py"))
    if not path.name.startswith(("documents", "schemas"))
]


def _printed():
    """Yield the name of each document that the commands' source prints."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.removeprefix("skillwire/")
                if name.count("/") == 1 and name.endswith("/1"):
                    yield name


def test_what_is_printed_has_a_schema_and_every_schema_is_printed():
    assert set(_printed()) == set(document_names())


def _objects(schema, path=""):
    if schema.get("type") == "object":
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _objects(inner, f"{path}/{name}")
    for inner in [
        *schema.get("anyOf", ()),
        *schema.get("oneOf", ()),
        *([schema["items"]] if "items" in schema else []),
    ]:
        yield from _objects(inner, path)


def test_no_field_takes_anything():
    """The type checker compares nothing with Any; a field with any JSON is an object."""
    assert not any(hasattr(module, "Any") for module in (documents, documents_run))


@pytest.mark.parametrize("name", document_names())
def test_a_schema_is_valid_closed_and_describes_each_field(name):
    schema = schema_of(name)
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["description"]
    for path, part in _objects(schema):
        assert "additionalProperties" in part, path
        assert not [field for field, inner in part.get("properties", {}).items() if not inner.get("description")], path


def test_a_field_that_no_schema_names_is_noticed():
    with pytest.raises(AssertionError, match="surprise"):
        check_document('{"schema": "skillwire/outdated/1", "skills": [], "findings": [], "surprise": 1}')
    with pytest.raises(AssertionError, match="findings"):
        check_document('{"schema": "skillwire/outdated/1", "skills": []}')
    with pytest.raises(AssertionError, match="has no schema"):
        check_document('{"schema": "skillwire/nosuch/1"}')
