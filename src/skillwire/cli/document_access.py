"""What commands print with ``--json`` of logins, tokens, keys and certificates. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Final

from skillwire.cli.document_parts import (
    DRY_RUN,
    Schema,
    fields,
    flag,
    or_null,
    some,
    text,
    texts,
)

_LOGIN: Final = {
    "origin": text("The only origin that it is sent to"),
    "kind": text("What it is", "api_key", "oauth2", "custom"),
    "header": text("The header field that carries it"),
    "expires_at": or_null(text("RFC 3339 in UTC"), "when that is not known"),
    "renewable": flag("Whether it is renewed by itself"),
    "server": or_null(text("The origin of the authorization server"), "when there is none"),
    "scope": or_null(text("What was granted"), "when it is no OAuth 2.0"),
    "stored_in": text("Where its secrets are", "file", "keyring"),
}
_TOKEN: Final = fields(
    "A token",
    id=or_null(text("What list, revoke and rotate call it"), "with --dry-run, before it is made"),
    name=text("Whose it is"),
    kind=text("What it is", "api_key", "signing_key"),
    state=text("Whether it may be used", "good", "ended", "revoked"),
    skills=texts("The skills that it opens; * is every one"),
    scopes=texts("What else it allows"),
    created_at=text("RFC 3339 in UTC"),
    expires_at=or_null(text("RFC 3339 in UTC"), "when it never ends by itself"),
    revoked_at=or_null(text("RFC 3339 in UTC"), "unless it was taken back"),
)
_CERTIFIED: Final = {
    "agents": texts("The agents that it is for"),
    "skills": texts("The skills that it is for, whoever offers them"),
    "hosts": texts("The addresses and names that its holder may announce"),
}
_AGENT_CERTIFICATE: Final = fields(
    "The agent's certificate",
    serial=text("Its number, in hexadecimal"),
    **_CERTIFIED,
    by=text("Who has signed it", "ourselves", "authority"),
    expires_at=text("RFC 3339 in UTC"),
    state=text("Whether it is worth anything, as far as this machine has learned", "good", "ended", "revoked"),
    good=flag("Whether it has not ended, and was not taken back"),
)

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
DOCUMENTS: Final[dict[str, Schema]] = {
    "auth-login/1": fields("The login that was made; nothing in it is secret.", **_LOGIN),
    "auth-login-plan/1": fields(
        "What login would do, with --dry-run.",
        origin=text("The only origin that the credential would be sent to"),
        kind=text("What is wanted", "api_key", "oauth2", "custom"),
        header=or_null(text("The header field that would carry an API key"), "for another kind"),
        hosts=texts("The authorization server, as far as the origin names it"),
        scopes=texts("What would be asked for there"),
        stored_in=text("Where its secrets would be", "file", "keyring"),
    ),
    "auth-status/1": fields("Every login.", logins=some("By origin", fields("A login", **_LOGIN))),
    "auth-logout/1": fields(
        "Where login was ended.",
        dry_run=DRY_RUN,
        logouts=some(
            "Each origin",
            fields(
                "An origin",
                origin=text("The origin"),
                revoked=flag("Whether the server took the token back"),
            ),
        ),
    ),
    "token/1": fields(
        "A token that was made or taken back.",
        dry_run=DRY_RUN,
        token=_TOKEN,
        secret=or_null(text("Shown now and never again"), "when none was made"),
        replaces=or_null(_TOKEN, "unless a token was replaced"),
    ),
    "tokens/1": fields("Every token, oldest first; nothing in it is secret.", tokens=some("The tokens", _TOKEN)),
    "ca/1": fields(
        "A certificate authority of the local network that was made; nothing in it is secret.",
        dry_run=DRY_RUN,
        folder=text("Its folder"),
        root=text("The file of the root's certificate, which agents trust"),
        center=text("The file of the certificate of the SkillCenter CA, which issues"),
        revocations=text("The file of the signed list of what was taken back"),
        encrypted=flag("Whether its keys are encrypted"),
    ),
    "ca-issue/1": fields(
        "A certificate that was issued.",
        dry_run=DRY_RUN,
        serial=or_null(text("Its number, in hexadecimal"), "with --dry-run"),
        **_CERTIFIED,
        expires_at=text("RFC 3339 in UTC"),
        certificate=text("The file that it was written to"),
        key=or_null(text("The file of the key that was made for it"), "when it was asked for by a request"),
    ),
    "ca-list/1": fields(
        "Certificates that an authority has issued, or taken back; SkillCenter CAs are among them.",
        dry_run=DRY_RUN,
        certificates=some(
            "The certificates, oldest first",
            fields(
                "A certificate",
                serial=text("Its number, in hexadecimal"),
                authority=or_null(text("The name of a SkillCenter CA"), "for an agent or a skill"),
                issuer=or_null(text("The number of the SkillCenter CA that has issued it"), "for one of the root"),
                **_CERTIFIED,
                state=text("Whether it is worth anything", "good", "ended", "revoked"),
                issued_at=text("RFC 3339 in UTC"),
                expires_at=text("RFC 3339 in UTC"),
                revoked_at=or_null(text("RFC 3339 in UTC"), "unless it, or who has issued it, was taken back"),
                renews=or_null(text("The number of the certificate that asked for it"), "when a person did"),
            ),
        ),
    ),
    "key/1": fields(
        "The key of this agent of the local network, and its certificate; nothing in it is secret.",
        agent=or_null(text("The agent's name"), "before one was made"),
        key=or_null(text("The file of the key"), "before one was made"),
        fingerprint=or_null(
            text("SHA-256 of the public key, `sha256:` and 64 hexadecimal characters"), "without a key"
        ),
        certificate=or_null(_AGENT_CERTIFICATE, "before one was made"),
    ),
    "key-request/1": fields(
        "A request for the certificate of this agent; nothing in it is secret.",
        dry_run=DRY_RUN,
        **_CERTIFIED,
        new=flag("Whether the key is a new one"),
        request=or_null(text("The request, PEM, for ca issue --request"), "with --dry-run"),
    ),
    "key-install/1": fields(
        "A certificate that was installed for this agent.",
        dry_run=DRY_RUN,
        key=flag("Whether a key came with it"),
        certificate=_AGENT_CERTIFICATE,
    ),
}
