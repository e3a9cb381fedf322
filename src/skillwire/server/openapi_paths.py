"""The routes of the server as OpenAPI describes them: for each path what it is, its parameters, its answers.

What holds for all of them (who may ask, how often, what an error looks like) is added to each. HEAD is GET without the
body; a preflight is answered wherever scripts of other origins may read.

OpenAPI has no word for a parameter that holds slashes: ``{file}`` does. And it has none for what is answered to clients
that take the URL of an index for that of a site: every path of Agent Skills, once more behind such a URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.registry.search import FACETS
from skillwire.server.auth.resource import RESOURCE_PATH
from skillwire.server.openapi_executions import executions
from skillwire.server.openapi_lan import lan
from skillwire.server.openapi_neighbours import neighbours
from skillwire.server.openapi_operations import describe, describe_answer
from skillwire.server.openapi_parts import HTML, JSON, listed, reference
from skillwire.server.openapi_rpc import rpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.server.openapi_parts import Node

_CONDITION: Final = "If-None-Match"
_PART: Final = (_CONDITION, "Range", "If-Range")
_ARCHIVES: Final = ("application/gzip", "application/zip")
_KEPT: Final = ("ETag", "Cache-Control", "Vary")


def paths(openapi: str) -> Node:
    """Return the description of every path; ``openapi`` is that of the document itself."""
    found: Node = {}
    for scope in ("", "/@{scope}"):
        found |= _agent_skills(f"{scope}/.well-known/agent-skills", "SkillsIndex")
        found |= _agent_skills(f"{scope}/.well-known/skills", "OldSkillsIndex")
    services = dict(_services(openapi))
    return {**found, **_sharing(), **executions(), **rpc(), **neighbours(), **lan(), **services, **dict(_pages())}


def _agent_skills(base: str, index: str) -> Node:
    scope = ("scope",) if "{scope}" in base else ()
    whose = "a skill, a publisher or a scene" if scope else "all skills"

    def resource(meaning: str, answers: Mapping[str, Node | str], *parameters: str) -> Node:
        hidden = {"403": "Denied", "404": "NotFound"}
        return describe("Agent Skills Discovery", meaning, {**answers, **hidden}, (*scope, *parameters))

    artifact = _bytes("text/markdown", *_ARCHIVES)
    return {
        f"{base}/index.json": resource(f"The index of {whose}", _json(reference("schemas", index)), _CONDITION),
        f"{base}/{{skill}}/{{file}}": resource("A file of a skill", _bytes("*/*"), "skill", "file", *_PART),
        f"{base}/{{archive}}": resource("The artifact of several files", _bytes(*_ARCHIVES), "archive", *_PART),
        f"{base}/sha256/{{artifact}}": resource("An artifact by its digest: for good", artifact, "artifact", *_PART),
    }


def _sharing() -> Node:
    def resource(meaning: str, schema: Node, refusal: tuple[str, str], parameter: str) -> Node:
        answers = {**_json(schema), refusal[0]: refusal[1]}
        return describe("Skill Sharing", meaning, answers, (parameter, _CONDITION))

    entries = listed(reference("schemas", "SkillIndexEntry"))
    descriptor = reference("schemas", "SkillDescriptor")
    return {
        "/.well-known/skill-sharing": resource(
            "The Skill Index", reference("schemas", "SkillIndex"), ("400", "BadType"), "type"
        ),
        "/skills": resource("The list of a registry", entries, ("400", "BadType"), "type"),
        "/skills/{skill}.json": resource("A Skill Descriptor", descriptor, ("404", "SkillNotFound"), "skill"),
    }


def _services(openapi: str) -> Iterator[tuple[str, Node]]:
    found = {**_json(reference("schemas", "SearchPage")), "400": "BadQuery"}
    searched = ("q", "limit", "after", "facets", *FACETS, _CONDITION)
    yield "/api/search", describe("Services", "Search for skills", found, searched)
    yield openapi, describe("Services", "This document", _json({"type": "object"}), (_CONDITION,))
    resource = {
        "200": describe_answer("Its metadata.", {JSON: reference("schemas", "ProtectedResource")}, "Cache-Control")
    }
    meaning = "Which authorization server gives the tokens that are good here"
    yield RESOURCE_PATH, describe("Services", meaning, {**resource, "404": "NotFound"}, ())
    for path, meaning, media_type, schema in (
        ("/healthz", "Whether the process answers", JSON, reference("schemas", "Liveness")),
        ("/readyz", "Whether there is something to serve, and what is broken", JSON, reference("schemas", "Readiness")),
        ("/metrics", "Counters for Prometheus", "text/plain", {"type": "string"}),
    ):
        answer = {"200": describe_answer(meaning, {media_type: schema}, "Cache-Control")}
        yield path, describe("Services", meaning, answer, (), preflight=False)


def _pages() -> Iterator[tuple[str, Node]]:
    loading = {HTML: {"type": "string"}, JSON: reference("schemas", "SharingError")}
    page: dict[str, Node | str] = {
        "200": describe_answer("A page.", {HTML: {"type": "string"}}, *_KEPT, "Content-Security-Policy"),
        "304": "NotModified",
        "503": describe_answer("The skills are still being loaded, or `ISSUER_UNAVAILABLE`.", loading, "Retry-After"),
    }
    absent = describe_answer("There is no such page.", {HTML: {"type": "string"}})
    refused = {"400": describe_answer("A parameter is beyond its bounds.", {HTML: {"type": "string"}})}
    searched = ("words", *FACETS, "after", _CONDITION)
    asset = describe_answer("The file.", {"*/*": {}}, "Cache-Control", "Content-Security-Policy")
    for path, meaning, answers, parameters in (
        ("/", "The list of skills", {**page, **refused}, searched),
        ("/hits", "The part of it that a search changes", {**page, **refused}, searched),
        ("/skills/{skill}", "A skill", {**page, "404": absent}, ("skill", _CONDITION)),
        ("/skills/{skill}/files/{file}", "A file, to read", {**page, "404": absent}, ("skill", "file", _CONDITION)),
        ("/assets/{asset}", "What pages need", {"200": asset, "404": absent}, ("asset",)),
    ):
        yield path, describe("Pages", meaning, answers, parameters, preflight=False)


def _json(schema: Node) -> dict[str, Node | str]:
    return {"200": describe_answer("It.", {JSON: schema}, *_KEPT), "304": "NotModified"}


def _bytes(*media_types: str) -> dict[str, Node | str]:
    """Return the answers of what can be had in parts."""
    content: Node = {media_type: {} for media_type in media_types}
    fields = ("ETag", "Cache-Control", "Accept-Ranges", "Content-Security-Policy")
    return {
        "200": describe_answer("All of it.", content, *fields),
        "206": describe_answer("A part of it.", content, *fields, "Content-Range"),
        "304": "NotModified",
        "416": "OutOfRange",
    }
