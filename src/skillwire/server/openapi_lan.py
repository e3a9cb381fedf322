"""The routes of a server on the local network as OpenAPI describes them. Without ``serve --lan`` each is a 404.

``/lan/certificates`` and ``/lan/revocations`` are there with an authority alone. Spec: SDP §4.3, §10.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from skillwire import limits
from skillwire.model.lan import FoundVia, Trust
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.protocols.skill_discovery.messages import HealthStatus, Reason
from skillwire.server.openapi_operations import describe, describe_answer, every_answer, posted
from skillwire.server.openapi_parts import JSON, closed, listed, problem, reference
from skillwire.server.routes.lan import EVENTS_PATH, SNAPSHOT_PATH

if TYPE_CHECKING:
    from skillwire.server.openapi_operations import Answers
    from skillwire.server.openapi_parts import Node

_TAG: Final = "Local network"
_TEXT: Final = {"type": "string"}
_INSTANT: Final = {"type": "number", "description": "Seconds since the epoch."}
_COUNT: Final = {"type": "integer", "minimum": 0}
_CHANGES: Final = ("registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene")
_REASONS: Final = (*(reason.value.lower() for reason in Reason), "silent", "revoked", "crowded")
_FIELDS: Final = ("Cache-Control", "Vary")
_NOT_THERE: Final = problem(
    "As above, or this server is not on the local network yet: `LAN_UNAVAILABLE`.",
    "Pause",
    schema=("Problem", "SharingError"),
)
_OPERATORS: Final[dict[str, Node | str]] = {
    "401": problem("Nobody is signed in, and no key was shown: `AUTH_REQUIRED`.", "WWW-Authenticate"),
    "403": problem("Who asks is no operator: `ACCESS_DENIED`.", schema=("Problem", "SharingError")),
    "404": "NotFound",
}


def lan() -> Node:
    """Return the description of each path."""
    return {
        PATH: _agent(),
        SNAPSHOT_PATH: _snapshot(),
        EVENTS_PATH: _events(),
        "/lan/certificates": _renew(),  # not by its name, which comes with cryptography
        "/lan/revocations": _revocations(),
    }


def lan_schemas() -> Node:
    """Return the schemas of what is told of the network."""
    skill = {
        "agentId": _TEXT,
        "skillId": _TEXT,
        "version": _TEXT,
        "skillType": _TEXT,
        "endpoint": {**_TEXT, "description": "HOST:PORT."},
        "capabilities": listed(_TEXT),
        "scenes": listed(_TEXT),
        "status": {"enum": [status.value for status in HealthStatus]},
        "trust": {"enum": list(get_args(Trust))},
        "foundVia": {"enum": [via.value for via in FoundVia]},
        "heard": _INSTANT,
        "isStale": {"type": "boolean"},
    }
    member = {"agentId": _TEXT, "skillId": _TEXT, "role": {"enum": ["PRIMARY", "BACKUP"]}}
    known = {
        "agentId": _TEXT,
        "at": _INSTANT,
        "isSuspected": {"type": "boolean", "description": "Whether so many fell silent that the network is suspected."},
        "skills": listed(reference("schemas", "LanSkill")),
        "scenes": listed(reference("schemas", "LanScene")),
        "counters": {"type": "object", "additionalProperties": _COUNT},
    }
    nothing = {"type": "array", "maxItems": 0}
    changed = {
        "skill": reference("schemas", "LanSkill"),
        "scene": reference("schemas", "LanScene"),
        "reason": {"enum": list(_REASONS), "description": "Why a skill is gone, where that is known."},
    }
    return {
        "LanSkill": closed(skill),
        "LanScene": closed({"sceneId": _TEXT, "groupId": _TEXT, "members": listed(closed(member))}),
        "LanSnapshot": {
            "anyOf": [
                closed(known),
                closed({"agentId": {"type": "null"}, "trouble": _TEXT, "skills": nothing, "scenes": nothing}),
            ]
        },
        "LanChange": closed({"kind": {"enum": list(_CHANGES)}, "at": _INSTANT}, changed),
        "LanAgent": closed({"agentId": _TEXT}, {"tlsPort": _COUNT}),
        "RenewalRequest": {
            "type": "object",
            "properties": {
                "request": {**_TEXT, "description": "PKCS 10, in PEM, signed by the key of the new certificate."},
                "certificate": {**_TEXT, "description": "That is still good: DER, in base64."},
                "timestamp": {"type": "integer", "description": "Milliseconds since the epoch."},
                "signature": {**_TEXT, "description": "By the key of the certificate that is still good."},
            },
            "required": ["request", "certificate", "timestamp", "signature"],
        },
        "IssuedCertificate": closed({"certificate": {**_TEXT, "description": "DER, in base64."}}),
    }


def _agent() -> Node:
    found = describe_answer("Its agent.", {JSON: reference("schemas", "LanAgent")}, "Cache-Control")
    answers: Answers = {"200": found, "404": "NotFound", "503": _NOT_THERE}
    return describe(_TAG, "Which agent announces these skills, and where it hands out connection secrets", answers, ())


def _snapshot() -> Node:
    found = describe_answer("All that is known.", {JSON: reference("schemas", "LanSnapshot")}, *_FIELDS)
    return describe(_TAG, "The network, for operators", {**_OPERATORS, "200": found}, (), preflight=False)


def _events() -> Node:
    meaning = "`snapshot` and each `change` of the network as they happen, for operators"
    data = {"snapshot": reference("schemas", "LanSnapshot"), "change": reference("schemas", "LanChange")}
    events = {**_TEXT, "description": "The `data` of each event is JSON in one line.", "x-event-data": data}
    stream = describe_answer("A stream of them.", {"text/event-stream": events}, "Cache-Control")
    return describe(_TAG, meaning, {**_OPERATORS, "200": stream, "503": _NOT_THERE}, (), preflight=False)


def _renew() -> Node:
    issued = {JSON: reference("schemas", "IssuedCertificate")}
    answers: Answers = {
        "200": describe_answer("The new one.", issued, "Cache-Control"),
        "400": problem("It is no question for a certificate: `CERTIFICATE_REQUEST`, or what is wrong with its JSON."),
        "403": problem("Nothing is certified on it: `CERTIFICATE_REFUSED`."),
        "404": "NotFound",
        "413": problem(f"It has more than {limits.LAN_RENEWAL_BYTES:,} bytes: `LIMIT_SIZE`."),
        "429": problem("As above, or it was renewed often enough: `CERTIFICATE_REFUSED`.", "Pause"),
        "503": problem("As above, or the authority cannot sign at the moment: `NOT_READY`.", "Pause"),
    }
    asked = {JSON: {"schema": reference("schemas", "RenewalRequest")}}
    return posted(_TAG, "Renew a certificate, before it ends", asked, every_answer(answers))


def _revocations() -> Node:
    answers: Answers = {
        "200": describe_answer("The list, signed: PEM.", {"application/x-pem-file": _TEXT}, "Cache-Control"),
        "404": "NotFound",
        "503": problem("As above, or the list cannot be signed at the moment: `NOT_READY`.", "Pause"),
    }
    return describe(_TAG, "Which certificates were taken back", answers, ())
