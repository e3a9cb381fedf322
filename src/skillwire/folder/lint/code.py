"""Rules about code: scripts that do dangerous things, secrets in files, and entry points that cannot run.

The rules about scripts match patterns in plain text: they remind an honest publisher and point a reviewer to the place,
and prove nothing. The rules about secrets find tokens of a known form, and assignments that look like one; each row
names a literal that must occur before its pattern is tried, so most files cost a few lookups. The other rules get the
text with every secret masked, and :meth:`Findings.redact` cleans earlier findings, so no message contains a secret.
The entry point's file is parsed and never run. Names that only execution can bind (``from x import *``, ``globals()``,
``exec``, ``__getattr__``) count as bound, so the rule reports only code that can never run.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from skillwire.errors import SourceLocation
from skillwire.folder.danger import search_file
from skillwire.folder.lint import FolderContent, TextFile
from skillwire.folder.manifest import EntryPoint, entry_points
from skillwire.folder.rules import Findings

#: Programs that reach the network; ``nc`` and ``ncat`` are also parts of common words.
_LONG_PROGRAMS: Final = ("curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "telnet")
_PROGRAM: Final = "|".join((*_LONG_PROGRAMS, "nc", "ncat"))
_PROGRAMS: Final = rf"(?:/usr(?:/local)?/bin/)?({_PROGRAM})"
_MODULES: Final = (
    "urllib.request", "urllib3", "requests", "httpx", "aiohttp", "http.client", "socket", "ftplib", "smtplib",
    "imaplib", "telnetlib", "websocket", "websockets", "paramiko", "boto3", "grpc",
)  # fmt: skip
_PYTHON: Final = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+({'|'.join(map(re.escape, _MODULES))})\b"
    # A command: in the call that starts it, or as a list whose second item is an option or an address.
    rf"|\b(?:run|call|check_call|check_output|getoutput|Popen|system|popen|create_subprocess_(?:exec|shell)|execlp?|execvp?)"
    rf"\(\s{{0,200}}[\[(]?\s{{0,200}}[rf]?[\"']{_PROGRAMS}(?=[\"']|\s)"
    rf"|[\[(]\s{{0,200}}[\"']{_PROGRAMS}[\"'],\s{{0,200}}f?[\"'](?:-|https?://)",
    re.MULTILINE,
)
_SHELL: Final = re.compile(rf"^[^#\n]*?(?:^|[\s;|&(`])({_PROGRAM})[ \t]+[^\s=)]", re.MULTILINE)
_JAVASCRIPT: Final = re.compile(
    r"\b(fetch|axios(?:\.\w+)?)\s*\(|\b(XMLHttpRequest|WebSocket)\b"
    rf"|\b(?:exec|spawn|execFile)(?:Sync)?\(\s{{0,200}}[\"'`]{_PROGRAMS}(?=[\"'`]|\s)"
    r"|(?:require\(|from|import)\s*[\"'](?:node:)?(https?|net|tls|dgram|axios|node-fetch|got|undici|ws)[\"']"
)
_RUBY: Final = re.compile(r"^[^\S\n]*require\s+[\"'](net/http|open-uri|socket|faraday|httparty)[\"']", re.MULTILINE)
_PERL: Final = re.compile(r"^[^\S\n]*use\s+(LWP\S*|HTTP::Tiny|IO::Socket\S*|Net::\S+?);", re.MULTILINE)
_POWERSHELL: Final = re.compile(
    r"\b(Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Net\.WebClient|Net\.Http\.HttpClient)\b", re.IGNORECASE
)
#: Each match of a pattern contains one of its literals; most scripts have none, and this test is ten times as fast.
_NETWORK_WORDS: Final = {
    _PYTHON: (*_MODULES, *_LONG_PROGRAMS, '"nc', "'nc", "/nc"),
    _SHELL: (*_LONG_PROGRAMS, "nc ", "nc\t", "ncat"),
}
_LANGUAGES: Final = {
    "py": _PYTHON, "sh": _SHELL, "bash": _SHELL, "zsh": _SHELL, "js": _JAVASCRIPT, "mjs": _JAVASCRIPT,
    "cjs": _JAVASCRIPT, "ts": _JAVASCRIPT, "mts": _JAVASCRIPT, "rb": _RUBY, "pl": _PERL, "ps1": _POWERSHELL,
}  # fmt: skip
_INTERPRETERS: Final = (
    ("python", _PYTHON), ("node", _JAVASCRIPT), ("deno", _JAVASCRIPT), ("bun", _JAVASCRIPT), ("ruby", _RUBY),
    ("perl", _PERL), ("pwsh", _POWERSHELL), ("sh", _SHELL),
)  # fmt: skip
_NETWORK_NEED: Final = re.compile(r"\b(?:network|internet|online|https?|web|api|download(?:s|ing)?)\b", re.IGNORECASE)


def lint_scripts(content: FolderContent, findings: Findings) -> None:
    """Judge the scripts of a folder, and the commands in its documents."""
    compatibility = content.skill_md.compatibility if content.skill_md else None
    declared = bool(content.manifest.network or _NETWORK_NEED.search(compatibility or ""))
    masked = {file.path: file.text.encode() for file in content.texts}
    for path, data, _ in content.files:
        for code, message, place, _ in search_file(path, content.place(path).source, masked.get(path, bytes(data))):
            # No secrets are masked in other files, so no excerpt may show them.
            findings.add(code, message, place if path in masked else place._replace(excerpt=None))
    for file in content.texts:
        language = _LANGUAGES.get(file.path.rpartition(".")[2].lower())
        if file.text.startswith("#!"):
            first = file.text.split("\n", 1)[0]
            language = language or next((patterns for name, patterns in _INTERPRETERS if name in first), None)
            if first.endswith("\r"):
                findings.add("SCRIPT_LINE_ENDS", "the first line ends in CR LF", file.place(0, len(first) - 1))
            if not file.executable:
                place = file.place(0, len(first.rstrip("\r")))
                findings.add("SCRIPT_NOT_EXECUTABLE", "the executable bit is missing", place)
        if language is None or declared or not any(word in file.text for word in _NETWORK_WORDS.get(language, ("",))):
            continue
        if found_use := language.search(file.text):
            group = found_use.lastindex or 0
            message = f"{found_use[group]} uses the network; neither skill.toml nor compatibility declares it"
            findings.add("NETWORK_UNDECLARED", message, file.place(*found_use.span(group)))


class _Secret(NamedTuple):
    name: str
    start: int
    end: int


#: What it is, a literal that must occur, the pattern.
_FORMS: Final = tuple(
    (name, literal, re.compile(pattern))
    for name, literal, pattern in (
        ("an AWS access key id", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
        ("a temporary AWS access key id", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
        *(("a GitHub token", f"gh{one}_", rf"\bgh{one}_[A-Za-z0-9]{{36,}}\b") for one in "pousr"),
        ("a GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{60,}\b"),
        ("a GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
        ("an Anthropic key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{32,}"),
        ("an OpenAI key", "sk-", r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}"),
        ("a Slack token", "xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
        ("a Slack web hook", "hooks.slack.com", r"hooks\.slack\.com/services/T\w+/B\w+/\w{16,}"),
        ("a Google key", "AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
        ("a Stripe key", "k_live_", r"\b[sr]k_live_[0-9A-Za-z]{20,}"),
        ("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", "pypi-AgE", r"\bpypi-AgE[A-Za-z0-9_-]{40,}"),
        ("a Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,}\b"),
        ("a private key", "PRIVATE KEY", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
        ("a password in a URL", "://", r"://[^\s/:@\"'<>{}$]*:((?![<{$*])[^\s/:@\"'<>{}$]{6,})@[A-Za-z0-9.-]"),
    )
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
_MOST_SECRETS: Final = 20


def lint_secrets(content: FolderContent, findings: Findings) -> FolderContent:
    """Judge the text of every file of a folder; return the folder with every secret masked in its text."""
    texts = []
    for file in content.texts:
        secrets = sorted(_secrets(file), key=lambda secret: secret.start)
        parts = []  # with a star for each character of a secret
        done = 0
        for secret in secrets:
            start = max(secret.start, done)
            parts += [file.text[done:start], "*" * (secret.end - start)]
            done = max(secret.end, done)
        masked = replace(file, text="".join([*parts, file.text[done:]])) if secrets else file
        for secret in secrets[:_MOST_SECRETS]:
            findings.add("SECRET", f"this looks like {secret.name}", masked.place(secret.start, secret.end))
        findings.secrets.update(file.text[secret.start : secret.end] for secret in secrets)
        texts.append(masked)
    return replace(content, texts=tuple(texts))


def _secrets(file: TextFile) -> Iterator[_Secret]:
    text = file.text
    has_underscore = "_" in text  # one character is found ten times as fast, and prose has none
    for name, literal, pattern in _FORMS:
        if (has_underscore or "_" not in literal) and literal in text:
            for found in pattern.finditer(text):
                if not _PLACEHOLDER.search(found.group()):
                    yield _Secret(name, *found.span(found.lastindex or 0))
    quoted = _ASSIGNED.finditer(text) if '"' in text or "'" in text else ()
    called = (found for found in quoted if _CALLED.search(text, max(0, found.start() - 40), found.start()))
    bare = _BARE.finditer(text) if _SETTINGS.fullmatch(file.path.rpartition("/")[2]) else ()
    for found in (*called, *bare):
        if _looks_random(found[1]):
            yield _Secret("a secret", *found.span(1))


def _looks_random(value: str) -> bool:
    """Whether ``value`` looks like a key: digits and letters mixed, few repeats, no word for an example."""
    if _PLACEHOLDER.search(value) or not re.search(r"[0-9]", value) or not re.search(r"[A-Za-z]", value):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= _ENTROPY_BITS


_BY_RUNNING: Final = ("globals(", "exec(", "setattr(", "vars(", "__dict__", "__getattr__", "global ")
_SHOWN: Final = 200


def lint_entrypoint(content: FolderContent, findings: Findings) -> None:
    """Judge the files that ``[runtime]`` and ``[health]`` of a folder name."""
    functions = tuple(entry_points(content.manifest))
    for path in dict.fromkeys(one.path for one in functions):
        for file in content.texts:
            if file.path == path:
                _lint_module(content, file, [one for one in functions if one.path == path], findings)


def _lint_module(content: FolderContent, file: TextFile, functions: Sequence[EntryPoint], findings: Findings) -> None:
    data = next(bytes(one.content) for one in content.files if one.path == file.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this rule ignores a doubtful escape
            tree = ast.parse(data)
    except SyntaxError as error:
        place = SourceLocation(file.source, error.lineno or 1, error.offset or None)
        findings.add("ENTRYPOINT_BROKEN", f"the file is not Python: {error.msg[:_SHOWN]}", place)
        return
    except (ValueError, RecursionError, MemoryError):  # beyond what the parser accepts
        findings.add("ENTRYPOINT_BROKEN", "the file cannot be parsed as Python", SourceLocation(file.source))
        return
    names = set(_bound_at_top(tree))
    if "*" in names or any(word in file.text for word in _BY_RUNNING):
        return
    for one in functions:
        if one.export not in names:
            message = f"{one.path} has no function {one.export}"
            field = "export" if "export" in (content.manifest.document.get(one.table) or {}) else "entrypoint"
            findings.add("ENTRYPOINT_BROKEN", message, content.manifest_place(one.table, field))


def _bound_at_top(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds outside of its functions, classes and lambdas."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
