"""Holds every JSON document that a test makes the command line print against its schema."""

import json
from functools import cache

import jsonschema_rs

from skillwire.cli.explain import document_names, schema_of

_MARK = "skillwire/"


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema_of(name), offline=True)


def check_document(text: str | bytes | None) -> None:
    """Fail when ``text`` is a document of ours, or lines of them, that breaks its schema; take anything else."""
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    if not text or not text.startswith("{") or f'"schema": "{_MARK}' not in text:
        return
    for document in _documents(text):
        name = str(document.get("schema", "")).removeprefix(_MARK)
        assert name in document_names(), f"the document {name} has no schema: add it to src/skillwire/cli/documents*.py"
        errors = [f"{error.instance_path}: {error.message}" for error in _validator(name).iter_errors(document)]
        assert not errors, f"{name} is not what src/skillwire/cli/documents*.py declare: {errors[:5]}"


def _documents(text: str) -> list[dict[str, object]]:
    try:
        return [json.loads(text)]
    except ValueError:  # lines of documents, or something that only begins like one
        documents = []
        for line in text.splitlines():
            try:
                documents.append(json.loads(line))
            except ValueError:
                return []
        return documents
