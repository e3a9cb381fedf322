"""The OpenAPI documents of a server with every row of its route table, and of one that is a registry, too."""

import json
from functools import cache
from typing import Any

import jsonschema_rs
import schemathesis
import urllib3  # noqa: F401  # schemathesis imports it with the first document, and it tries a socket then

from skillwire.server import create_app, openapi


@cache
def routes(*, is_registry=False):
    """Return the rows of a server that publishes nothing."""
    return create_app([], registry=is_registry).routes


def document(*, is_registry=False):
    return openapi.document(routes(is_registry=is_registry))


def check_openapi(described: dict[str, Any]) -> None:
    """Hold a document to the schema of OpenAPI."""
    schemathesis.openapi.from_dict(json.loads(json.dumps(described))).validate()


def check_answer(value: Any, schema: dict[str, Any], described: dict[str, Any]) -> None:
    """Hold a value to a schema of a document."""
    whole = {**schema, "components": described["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(value)
