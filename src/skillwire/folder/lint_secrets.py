"""Rules about secrets: keys and tokens that have a form of their own, and assignments that look like one.

Such assignments have quotes, or stand in a file whose name says that they need none. Each row names what must occur
literally before its pattern is tried, so that a usual file costs a few look-ups. A finding says what sort of secret
and where. The other rules get the text with every secret masked, and what documents said about themselves before is
redacted (:meth:`Findings.redact`), so that the secret itself is in no message and no excerpt.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.content import FolderContent, TextFile
    from skillwire.folder.findings import Findings


class _Form(NamedTuple):
    name: str
    literal: str
    pattern: re.Pattern[str]


class _Secret(NamedTuple):
    name: str
    start: int
    end: int


def _form(name: str, literal: str, pattern: str) -> _Form:
    return _Form(name, literal, re.compile(pattern))


_FORMS: Final = (
    _form("an AWS access key id", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    _form("a temporary AWS access key id", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    *(
        _form("a GitHub token", prefix, rf"\b{prefix}[A-Za-z0-9]{{36,}}\b")
        for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
    ),
    _form("a GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{60,}\b"),
    _form("a GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    _form("an Anthropic key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{32,}"),
    _form("an OpenAI key", "sk-", r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}"),
    _form("a Slack token", "xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    _form("a Slack web hook", "hooks.slack.com", r"hooks\.slack\.com/services/T\w+/B\w+/\w{16,}"),
    _form("a Google key", "AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    _form("a Stripe key", "k_live_", r"\b[sr]k_live_[0-9A-Za-z]{20,}"),
    _form("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _form("a PyPI token", "pypi-AgE", r"\bpypi-AgE[A-Za-z0-9_-]{40,}"),
    _form("a Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,}\b"),
    _form("a private key", "PRIVATE KEY", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    _form("a password in a URL", "://", r"://[^\s/:@\"'<>{}$]*:((?![<{$*])[^\s/:@\"'<>{}$]{6,})@[A-Za-z0-9.-]"),
)
_ASSIGNED: Final = re.compile(r"[:=]\s{0,4}[\"']([A-Za-z0-9+/_.=-]{20,200})[\"']")
_CALLED: Final = re.compile(r"(?:key|token|secret|passw(?:or)?d|credential)s?[\"'\])]*\s*$", re.IGNORECASE)
#: Files in which a value needs no quotes, by their names: those of shells, of settings and of images.
_SETTINGS: Final = re.compile(
    r"(?:.*\.)?env(?:\..*)?|.*\.(?:sh|bash|zsh|ini|cfg|conf|properties|ya?ml|toml)|(?:.*\.)?(?:Dockerfile|Containerfile)(?:\..*)?",
    re.IGNORECASE,
)
_BARE: Final = re.compile(
    r"^[ \t]{0,40}(?:-[ \t]+)?(?:(?:export|ENV|ARG|set|declare)[ \t]+(?:-\w+[ \t]+)?)?"
    r"[\w.-]{0,60}(?:key|token|secret|passw(?:or)?d|credential)s?"
    r"(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t]+)([A-Za-z0-9+/_.=-]{20,200})[ \t]*\r?(?:#.*)?$",
    re.IGNORECASE | re.MULTILINE,
)
_PLACEHOLDER: Final = re.compile(
    r"example|sample|your|placeholder|change.?me|dummy|fake|test|xxxx|0000|1234|\.\.\.|todo|redacted", re.IGNORECASE
)
_ENTROPY_BITS: Final = 3.5
_TOLD: Final = 20


def lint_secrets(content: FolderContent, findings: Findings) -> FolderContent:
    """Judge the text of every file of a folder; return the folder with every secret masked in its text."""
    return replace(content, texts=tuple(_lint_file(file, findings) for file in content.texts))


def _lint_file(file: TextFile, findings: Findings) -> TextFile:
    secrets = sorted([*_secrets(file.text), *_bare_secrets(file)], key=lambda secret: secret.start)
    if not secrets:
        return file
    masked = replace(file, text=_masked(file.text, secrets))
    for secret in secrets[:_TOLD]:
        findings.add("SECRET", f"{secret.name} stands here", masked.place(secret.start, secret.end))
    findings.secrets.update(file.text[secret.start : secret.end] for secret in secrets)
    return masked


def _secrets(text: str) -> Iterator[_Secret]:
    has_underscore = "_" in text  # one character is found ten times as fast, and prose has none
    for form in _FORMS:
        if (has_underscore or "_" not in form.literal) and form.literal in text:
            for found in form.pattern.finditer(text):
                if not _PLACEHOLDER.search(found.group()):
                    yield _Secret(form.name, *found.span(found.lastindex or 0))
    if '"' in text or "'" in text:
        for found in _ASSIGNED.finditer(text):
            if _looks_random(found[1]) and _CALLED.search(text, max(0, found.start() - 40), found.start()):
                yield _Secret("what looks like a secret", *found.span(1))


def _bare_secrets(file: TextFile) -> Iterator[_Secret]:
    """Yield what is assigned without quotes, where the name of the file says that this is how it is done."""
    if _SETTINGS.fullmatch(file.path.rpartition("/")[2]):
        for found in _BARE.finditer(file.text):
            if _looks_random(found[1]):
                yield _Secret("what looks like a secret", *found.span(1))


def _looks_random(value: str) -> bool:
    """Whether ``value`` has the letters of a key: digits and letters mixed, few repeats, no word for an example."""
    if _PLACEHOLDER.search(value) or not re.search(r"[0-9]", value) or not re.search(r"[A-Za-z]", value):
        return False
    return (
        -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values()) >= _ENTROPY_BITS
    )


def _masked(text: str, secrets: list[_Secret]) -> str:
    """Return ``text`` with a star for each character of a secret, so that no line that is shown holds one."""
    parts = []
    done = 0
    for secret in secrets:
        start = max(secret.start, done)
        parts += [text[done:start], "*" * (secret.end - start)]
        done = max(secret.end, done)
    return "".join([*parts, text[done:]])
