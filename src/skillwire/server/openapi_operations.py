"""What the operations of the OpenAPI document are made of: answers, and what holds for every one of them."""

from __future__ import annotations

from collections.abc import Mapping

from skillwire.server.openapi_parts import COMMON, PARAMETERS, Node, headers, reference

#: Status → an answer, or the name of one that is described elsewhere.
Answers = Mapping[str, Node | str]


def describe_answer(meaning: str, content: Mapping[str, Node], *fields: str) -> Node:
    """Return the description of an answer: media type → schema, and the names of header fields."""
    found = {media_type: {"schema": schema} for media_type, schema in content.items()}
    return {"description": meaning, "headers": headers(*fields), "content": found}


def describe(tag: str, meaning: str, answers: Answers, parameters: tuple[str, ...], *, preflight: bool = True) -> Node:
    """Return the description of a path that is read, with what holds for every one of them."""
    told = every_answer(answers)
    asked = {"tags": [tag], "summary": meaning, **asked_with(parameters)}
    described: Node = {
        "parameters": in_path(parameters),
        "get": {**asked, "responses": told},
        "head": {**asked, "responses": {status: _without_body(status, one) for status, one in told.items()}},
    }
    return {**described, "options": describe_preflight(tag, meaning, told)} if preflight else described


def posted(tag: str, meaning: str, content: Node, told: Mapping[str, Node]) -> Node:
    """Return the description of a path that takes POST: media type → what the body is, and every answer."""
    body = {"required": True, "content": content}
    return {
        "parameters": [],
        "post": {"tags": [tag], "summary": meaning, "parameters": [], "requestBody": body, "responses": told},
        "options": describe_preflight(tag, meaning, told),
    }


def describe_preflight(tag: str, meaning: str, told: Mapping[str, Node]) -> Node:
    """Return the description of OPTIONS, refused as what is ``told`` is."""
    refusals = {status: answer for status, answer in told.items() if status >= "4"}
    return {"tags": [tag], "summary": meaning, "responses": {**refusals, "204": reference("responses", "Options")}}


def every_answer(answers: Answers) -> dict[str, Node]:
    """Return these answers, and those that any request may have."""
    every = dict(sorted({**COMMON, **answers}.items()))
    return {status: reference("responses", one) if isinstance(one, str) else one for status, one in every.items()}


def in_path(parameters: tuple[str, ...]) -> list[Node]:
    """Return references to those parameters that are parts of the path."""
    return [reference("parameters", name) for name in parameters if PARAMETERS[name]["in"] == "path"]


def asked_with(parameters: tuple[str, ...]) -> Node:
    """Return the part of an operation that refers to its own parameters."""
    own = [name for name in parameters if PARAMETERS[name]["in"] != "path"]
    return {"parameters": [reference("parameters", name) for name in own]}


def _without_body(status: str, answer: Node) -> Node:
    """Return the answer to HEAD: that to GET, its fields alone."""
    if "$ref" in answer:
        return {"description": f"As GET with {status}."}
    return {name: part for name, part in answer.items() if name != "content"}
