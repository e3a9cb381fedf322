"""Rules about what scripts do, and what documents tell agents to run.

Patterns, not a parser: they see what is written plainly. That is enough to remind an honest publisher and to
make a reviewer look; nothing here proves that a script is harmless.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillwire.folder.content import FolderContent, TextFile
    from skillwire.folder.findings import Findings

_SHELLS: Final = (
    r"(?:sudo\s+(?:-\S+\s+){0,8})?(?:env\s+(?:[^\s=]+=\S*\s+){0,8})?(?:/\S+/)?"
    r"(?:(?:ba|z|da|k|fi|a)?sh|python[0-9.]*|node|perl|ruby|php)\b"
)
#: The rest of a command, and of a line. Bounded: each name that begins a pattern would look through all that follows.
_REST: Final = r"(?:\\\r?\n|[^\n|;]){0,200}?"
_LINE: Final = r"[^\n]{0,200}"
#: One of these occurs in whatever fits a pattern: cheap to look for, and absent from most texts.
_NEEDED: Final = ("curl", "wget", "iex", "invoke-expression")
_PIPE: Final = re.compile(
    rf"\b(?:curl|wget)\b{_REST}\|\s*(?:tee\b{_REST}\|\s*)?{_SHELLS}"
    r"|\b(?:(?:ba|z|k)?sh|source|python[0-9.]*)\s+(?:-\S+\s+){0,8}<\(\s*(?:curl|wget)\b[^\n)]{0,200}\)?"
    rf"|\b(?:ba|z|da|k)?sh\s+-\w*c\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b{_LINE}"
    rf"|\beval\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b{_LINE}"
    rf"|\b(?:irm|iwr|invoke-webrequest|invoke-restmethod|curl|wget)\b[^\n|]{{0,200}}\|\s*(?:iex|invoke-expression)\b"
    rf"|\b(?:iex|invoke-expression)\b{_LINE}\b(?:irm|iwr|invoke-webrequest|invoke-restmethod|downloadstring)\b{_LINE}",
    re.IGNORECASE,
)

#: Programs that reach the network.
_PROGRAMS: Final = r"(?:/usr(?:/local)?/bin/)?(curl|wget|nc|ncat|ssh|scp|sftp|rsync|ftp|telnet)"
_PYTHON: Final = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(urllib\.request|urllib3|requests|httpx|aiohttp|http\.client|socket|ftplib|smtplib"
    r"|imaplib|telnetlib|websockets?|paramiko|boto3|grpc)\b"
    # A command: in the call that starts it, or as a list whose second item is an option or an address.
    rf"|\b(?:run|call|check_call|check_output|getoutput|Popen|system|popen|create_subprocess_(?:exec|shell)|execlp?|execvp?)"
    rf"\(\s{{0,200}}[\[(]?\s{{0,200}}[rf]?[\"']{_PROGRAMS}(?=[\"']|\s)"
    rf"|[\[(]\s{{0,200}}[\"']{_PROGRAMS}[\"'],\s{{0,200}}f?[\"'](?:-|https?://)",
    re.MULTILINE,
)
_SHELL: Final = re.compile(
    r"^[^#\n]*?(?:^|[\s;|&(`])(curl|wget|nc|ncat|ssh|scp|sftp|rsync|ftp|telnet)[ \t]+[^\s=)]", re.MULTILINE
)
_JAVASCRIPT: Final = re.compile(
    r"\b(fetch|axios(?:\.\w+)?)\s*\(|\b(XMLHttpRequest|WebSocket)\b"
    rf"|\b(?:exec|spawn|execFile)(?:Sync)?\(\s{{0,200}}[\"'`]{_PROGRAMS}(?=[\"'`]|\s)"
    r"|(?:require\(|from|import)\s*[\"'](?:node:)?(https?|net|tls|dgram|axios|node-fetch|got|undici|ws)[\"']"
)
_RUBY: Final = re.compile(r"^\s*require\s+[\"'](net/http|open-uri|socket|faraday|httparty)[\"']", re.MULTILINE)
_PERL: Final = re.compile(r"^\s*use\s+(LWP\S*|HTTP::Tiny|IO::Socket\S*|Net::\S+?);", re.MULTILINE)
_POWERSHELL: Final = re.compile(
    r"\b(Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Net\.WebClient|Net\.Http\.HttpClient)\b", re.IGNORECASE
)
_LANGUAGES: Final = {
    "py": _PYTHON, "sh": _SHELL, "bash": _SHELL, "zsh": _SHELL, "js": _JAVASCRIPT, "mjs": _JAVASCRIPT,
    "cjs": _JAVASCRIPT, "ts": _JAVASCRIPT, "mts": _JAVASCRIPT, "rb": _RUBY, "pl": _PERL, "ps1": _POWERSHELL,
}  # fmt: skip
_INTERPRETERS: Final = (
    ("python", _PYTHON), ("node", _JAVASCRIPT), ("deno", _JAVASCRIPT), ("bun", _JAVASCRIPT), ("ruby", _RUBY),
    ("perl", _PERL), ("pwsh", _POWERSHELL), ("sh", _SHELL),
)  # fmt: skip
_SAYS_NETWORK: Final = re.compile(r"\b(?:network|internet|online|https?|web|api|download(?:s|ing)?)\b", re.IGNORECASE)
_TOLD: Final = 20


def lint_scripts(content: FolderContent, findings: Findings) -> None:
    """Judge the scripts of a folder, and the commands in its documents."""
    declared = _declares_network(content)
    for file in content.texts:
        _lint_pipes(file, findings)
        if file.text.startswith("#!"):
            _lint_first_line(file, findings)
        language = _language(file)
        if language and not declared and (found := language.search(file.text)):
            group = found.lastindex or 0
            message = f"{found[group]} reaches the network; neither skill.toml nor compatibility says so"
            findings.add("NETWORK_UNDECLARED", message, file.place(*found.span(group)))


def _lint_pipes(file: TextFile, findings: Findings) -> None:
    lowered = file.text.lower()
    if not any(needed in lowered for needed in _NEEDED):
        return
    for count, found in enumerate(_PIPE.finditer(file.text)):
        if count >= _TOLD:
            return
        place = file.place(*found.span())
        findings.add("PIPE_TO_SHELL", "what comes from the network is run without being looked at", place)


def _lint_first_line(file: TextFile, findings: Findings) -> None:
    first = file.text.split("\n", 1)[0]
    if first.endswith("\r"):
        findings.add("SCRIPT_LINE_ENDS", "the first line ends in CR LF", file.place(0, len(first) - 1))
    if not file.executable:
        findings.add("SCRIPT_NOT_EXECUTABLE", "the executable bit is missing", file.place(0, len(first.rstrip("\r"))))


def _language(file: TextFile) -> re.Pattern[str] | None:
    """Return the patterns of the language that the file is a script in, or None."""
    by_name = _LANGUAGES.get(file.path.rpartition(".")[2].lower())
    if by_name or not file.text.startswith("#!"):
        return by_name
    first = file.text.split("\n", 1)[0]
    return next((patterns for interpreter, patterns in _INTERPRETERS if interpreter in first), None)


def _declares_network(content: FolderContent) -> bool:
    if content.manifest.network:
        return True
    compatibility = content.skill_md.compatibility if content.skill_md else None
    return compatibility is not None and _SAYS_NETWORK.search(compatibility) is not None
