r"""What a skill may do, as its files say: hosts, commands, packages, secrets, permissions, scripts and hidden text.

:func:`review_files` returns the values of each kind in :data:`KINDS`, and :func:`compare_reviews` what an update adds.
``add``, ``update``, ``diff`` and the pages of a registry show the same values. A review judges nothing and proves
nothing: code can do what no pattern finds. But an update that names another host, or comes with another script, asks
for more than the version that a person agreed to.

Values are sorted and state no line, so that moved text is no change. Trust: hostile. Time is linear in the bytes, which
are bounded (``REVIEW_BYTES``). A file that is not read, and values beyond ``REVIEW_VALUES``, are listed with a digest,
so that a change of them is seen.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.folder.danger import COMMENT, MOST, search_file
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.skill import SKILL_MD, SKILL_TOML
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import describe_hidden, find_hidden, neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from skillwire.folder.danger import Danger
    from skillwire.folder.differences import FileChange
    from skillwire.model.ref import Files
    from skillwire.model.skill import FileContent

#: Kind → its name for people, first what needs most attention.
KINDS: Final = {
    "dangers": "doubtful requests",
    "hidden": "hidden text",
    "permissions": "permissions",
    "tools": "allowed tools",
    "requires": "required skills",
    "secrets": "secrets",
    "hosts": "hosts",
    "packages": "packages",
    "commands": "commands",
    "scripts": "scripts",
    "binaries": "compiled or packed files",
    "unread": "unread files",
}
#: Kind → values, in the order of :data:`KINDS`, without empty kinds.
Review = dict[str, list[str]]

_SCRIPTS: Final = (".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd")
_SHELL_SCRIPTS: Final = (".sh", ".bash", ".zsh")
_COMPILED: Final = (".pyc", ".pyo", ".so", ".dll", ".dylib", ".jar", ".class", ".exe", ".wasm", ".node")
#: How files begin that hold no text and no code: pictures, fonts, sound, and pages.
_MEDIA: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"wOFF", b"wOF2", b"\0\1\0\0", b"OTTO", b"%PDF", b"\0\0\1\0",
    b"OggS", b"ID3",
)  # fmt: skip
#: Kinds of what :mod:`skillwire.folder.danger` finds, where that is not a danger.
_DANGERS: Final = {"CREDENTIAL_FILE": "secrets", "FILE_UNSEARCHED": "unread"}
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_SNIFFED: Final = 8192
_SHOWN: Final = 160
_HEX: Final = 12

_DOMAIN: Final = r"(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}"
_CLIENTS: Final = (
    "curl", "wget", "nc", "ncat", "netcat", "telnet", "ssh", "scp", "sftp", "rsync", "ftp", "ping", "dig", "nslookup",
)  # fmt: skip
#: Program → the words that name packages after it, and where the packages are; the program alone stands for "".
_INSTALLS: Final = {
    **dict.fromkeys(("pip", "pip3"), ("pypi", {"install", "download"})),
    "uv": ("pypi", {"install", "add", "--with"}),
    "pipx": ("pypi", {"install", "run", "inject"}),
    **dict.fromkeys(("poetry", "pdm"), ("pypi", {"add"})),
    "uvx": ("pypi", {""}),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("npm", {"install", "i", "add", "exec", "dlx", "create", "x"})),
    **dict.fromkeys(("npx", "pnpx", "bunx"), ("npm", {""})),
    "conda": ("conda", {"install"}),
    "cargo": ("cargo", {"install", "add"}),
    "gem": ("gem", {"install"}),
    "go": ("go", {"install", "get", "run"}),
    "brew": ("brew", {"install"}),
    **dict.fromkeys(("apt", "apt-get", "apk", "dnf", "yum"), ("system", {"install", "add"})),
    **dict.fromkeys(("docker", "podman"), ("image", {"pull", "run"})),
}
_PATTERNS: Final = {
    # These begin with a literal, which the engine searches twenty times as fast.
    "url": r"://(?:[^\s/@\"'<>`]{1,256}@)?([^\s/?#\"'<>()\[\]{}|\\`,;:!*]{1,253}|\[[0-9a-fA-F:.]{2,45}\])",
    "mail": rf"@(?<=\w@)({_DOMAIN})\b",
    "address": r"[0-9](?<![\w.].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![\w.])",
    # Arguments of a network program, and hosts in them; a host that ends like a file name needs a slash.
    "network": rf"\b(?:{'|'.join(_CLIENTS)})[ \t]+([^\n|;&`]{{1,300}})",
    "bare": (
        rf"(?<![\w./@-])({_DOMAIN})(?:(?=[/:])"
        r"|(?<!\.gz|zip|tar|\.sh|\.py|\.js|son|txt|tml|\.md|yml|aml|xml|csv|log|pem)(?![\w./-]))"
    ),
    "capital": r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b",
    "package": rf"\b({'|'.join(_INSTALLS)})((?:[ \t]+(?:\\\n[ \t]*)?[^\s;|&`()<>]{{1,200}}){{1,40}})",
    "dependencies": r"^(?:#[ \t]*)?dependencies[ \t]*=[ \t]*\[([^\]]{0,10000})\]",
    "quoted": r"[\"']([A-Za-z0-9][\w.-]*)",
    "requirement": r"^[ \t]*([A-Za-z0-9][\w.-]*)",
    "span": r"`([^`\n]{1,300})`",
    "started": (
        r"\b(?:run|call|check_call|check_output|getoutput|Popen|system|popen|exec(?:Sync|File\w*|[lv]\w*)?|create_subprocess_\w+|spawn\w*)"
        r"\([ \t\n]{0,80}\[?[ \t\n]{0,80}f?[\"'`]([a-z./][\w./-]{0,80})"
    ),
    "quotes": r"\\.|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"",
    "segment": r"\|\|?|&&|;|\$\(|`|<\(|\b(?:sudo|env|exec|xargs|nohup|time|then|else|do)\b(?:[ \t]+-\S+)*",
    "word": r"[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*([A-Za-z~./][\w./+-]*+)(?![(=])",
    "function": r"(?<![\w-])([\w-]{1,64})[ \t]*\(\)",
    "heredoc": r"<<-?[ \t]*[\"']?(\w+)",
    "tool": r"[^\s,()]+(?:\([^)]*\))?",
    # What is open at the end of a text goes on to there, so that each character is read once.
    "toml": (
        r"\"\"\"(?:[^\"\\]|\\.|\"[^\"\\]|\"\\.|\"\"[^\"\\]|\"\"\\.)*+\"{0,5}|'{3}.*?(?:'{3,5}|\Z)"
        r"|\"(?:[^\"\\\n]|\\[^\n])*+\"?|'[^'\n]*+'?|#[^\n]*"
    ),
    "concealed": (
        r"<\w{1,30}\b(?=[^>]{0,300}?(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])"
        r"|\shidden[\s=>/]))[^>]{0,300}>[^<]{0,200}"
    ),
}
_FLAGS: Final = {
    "concealed": re.IGNORECASE,
    "toml": re.DOTALL,
    **dict.fromkeys(("dependencies", "requirement"), re.MULTILINE),
}
_DIGITS: Final = tuple(f"{digit}." for digit in range(10))
_STARTING: Final = ("run", "call", "check_output", "getoutput", "open", "system", "exec", "create_subprocess", "spawn")
_SECRETS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "PAT", "DSN", "COOKIE")
_NO_SECRETS: Final = frozenset({"PRIMARY_KEY", "FOREIGN_KEY"})
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "shell", "powershell", "ps1", "fish"})
_SESSIONS: Final = frozenset({"console", "shell-session", "terminal", "text", ""})
#: Words of a shell, and programs that read or print what they are given.
_PLAIN: Final = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "break", "continue", "case", "esac",
    "in", "select",
    "function", "time", "true", "false", "test", "echo", "printf", "cd", "pwd", "read", "set", "unset", "export",
    "local", "declare", "return", "exit", "shift", "trap", "wait", "ls", "cat", "head", "tail", "grep", "sort",
    "uniq", "cut", "tr", "wc", "mkdir", "touch", "date", "sleep", "basename", "dirname", "realpath", "which",
    "command", "type", "eof",
})  # fmt: skip
#: Programs that are looked for in spans of code, where the first word need not be a program.
_PROGRAMS: Final = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "telnet", "ssh", "scp", "sftp", "rsync", "ftp", "bash", "sh", "zsh",
    "python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "pwsh", "powershell", "osascript", "git",
    "gh", "glab", "docker", "podman", "kubectl", "helm", "terraform", "ansible", "aws", "gcloud", "az", "sudo",
    "su", "doas", "chmod", "chown", "rm", "dd", "mkfs", "crontab", "at", "launchctl", "systemctl", "service",
    "kill", "pkill", "eval", "exec", "source", "open", "xdg-open", "base64", "openssl", "gpg", "security", "pass",
    "keychain", "env", "printenv", "claude", "codex", "gemini", "cursor", "npx", "uvx", "pipx", "pip", "pip3", "uv",
    "npm", "pnpm", "yarn", "bunx", "cargo", "gem", "go", "brew", "apt", "apt-get", "apk", "dnf", "yum", "make",
    "psql", "mysql", "sqlite3", "mongo", "redis-cli", "tar", "unzip", "find", "xargs", "ln",
})  # fmt: skip
#: One of these is in each text that names a package by a command.
_INSTALLING: Final = tuple(
    {f"{program} " for program, (_, verbs) in _INSTALLS.items() if "" in verbs}
    | {f" {verb} " for _, verbs in _INSTALLS.values() for verb in verbs - {""}}
)
_RUNS_ONE: Final = frozenset({"", "run", "exec", "dlx", "create", "x", "--with"})  # what follows the package is its own
_PACKAGE: Final = re.compile(r"@?[A-Za-z0-9][\w./:-]*")
_PROSE: Final = frozenset({
    "a", "an", "the", "this", "that", "it", "its", "and", "or", "to", "if", "with", "from", "via", "using", "as",
    "in", "for", "on", "of", "first", "then", "again", "dependencies", "packages", "package", "your", "these",
    "them", "all", "any", "every", "is", "are", "was", "can", "will",
})  # fmt: skip


def review_files(
    name: str,
    files: Iterable[FileContent],
    report: Callable[[str, Danger], object] = lambda *_: None,
) -> Review:
    """Return what the skill of these files may do; the first ones are read while ``REVIEW_BYTES`` last.

    ``report`` is called with a path and each danger in that file.
    """
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    budget = int(limits.REVIEW_BYTES)
    for path, content, executable in files:
        data, lowered = bytes(content), path.lower()
        if executable or lowered.endswith(_SCRIPTS) or data.startswith(b"#!"):
            found["scripts"].add(path)
        dangers = [*search_file(path, f"{name}/{path}", data)]
        if len(dangers) >= MOST:  # further ones are not listed
            found["unread"].add(_with_digest(path, data))
        for danger in dangers:
            report(path, danger)
            if danger.code == "COMMENT_INSTRUCTION":  # every comment is listed
                continue
            kind = _DANGERS.get(danger.code, "dangers")
            found[kind].add(
                _shortened(danger.text if kind == "secrets" else f"{path}: {danger.message}: {danger.text}")
            )
        if lowered.endswith(_COMPILED) or (b"\0" in data[:_SNIFFED] and not data.startswith(_UTF_16)):
            if path in found["scripts"] or lowered.endswith(_COMPILED) or not data.startswith(_MEDIA):
                found["binaries"].add(_with_digest(path, data))
            continue
        budget -= len(data)
        if budget < 0 or len(data) > limits.REVIEW_FILE_BYTES:
            found["unread"].add(_with_digest(path, data))
            budget = max(budget, budget + len(data)) if len(data) > limits.REVIEW_FILE_BYTES else budget
            continue
        for kind, value in _review_text(path, lowered, data):
            found[kind].add(_shortened(value))
    return {kind: _bounded(values) for kind, values in found.items() if values}


def compare_reviews(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Review:
    """Return the values of ``after`` that ``before`` lacks: what an update asks for more."""
    known = {kind: set(values) for kind, values in before.items()}
    more = {kind: [one for one in after.get(kind, ()) if one not in known.get(kind, ())] for kind in KINDS}
    return {kind: values for kind, values in more.items() if values}


class SkillReview(NamedTuple):
    """What a skill may do, and what the version before it may: the installed one, or another.

    ``digest`` is that of its artifact, or of its files, which a plan keeps within bounds only. ``before`` is None for a
    skill that is new here. ``is_changed``: whether a file differs. ``is_reused``: whether other bytes than those that
    were published have their version.
    """

    name: str
    version: str | None
    digest: str
    after: Review
    files: Files
    old_version: str | None = None
    old_digest: str | None = None
    before: Review | None = None
    old_files: Files = ()
    is_changed: bool = True
    is_reused: bool = False

    @property
    def more(self) -> Review:
        """What it asks for beyond the version before it."""
        return compare_reviews(self.before or {}, self.after)

    @property
    def less(self) -> Review:
        """What only the version before it asked for."""
        return compare_reviews(self.after, self.before or {})

    def changes(self) -> list[FileChange]:
        """Return the changed files with their lines. Takes up to half a second: not for an event loop."""
        from skillwire.folder.differences import compare_contents  # noqa: PLC0415  # difflib; few commands show lines

        return compare_contents(self.old_files, self.files)


def _with_digest(path: str, data: bytes) -> str:
    return f"{path} {_beginning_of_digest(data)}"


def _beginning_of_digest(data: bytes | str) -> str:
    encoded = data.encode("utf-8", "replace") if isinstance(data, str) else data
    return f"(sha256 {hashlib.sha256(encoded).hexdigest()[:_HEX]})"


def _shortened(value: str) -> str:
    """Return ``value`` as one visible line; a long one is cut, and its digest tells it from others that begin alike."""
    shown = neutralise(" ".join(value.split()))
    if len(shown) <= _SHOWN:
        return shown
    return f"{shown[:_SHOWN]}… {_beginning_of_digest(value)}"


def _bounded(values: set[str]) -> list[str]:
    ordered = sorted(values)
    rest = ordered[limits.REVIEW_VALUES :]
    if not rest:
        return ordered
    digest = _beginning_of_digest("\n".join(rest))
    return [*ordered[: limits.REVIEW_VALUES], f"and {len(rest)} more {digest}"]


@cache
def _compiled(name: str) -> re.Pattern[str]:
    """Compile on first use: together the patterns cost several milliseconds, and most texts need few."""
    return re.compile(_PATTERNS[name], _FLAGS.get(name, 0))


def _review_text(path: str, lowered: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the kind and value of what the text of one file says. A shell skips NUL characters, and so does this."""
    text = data.decode("utf-8", "replace").replace("\0", "")
    is_markdown = lowered.endswith((".md", ".mdx", ".markdown"))
    marked = text.removeprefix("\ufeff")
    for run in find_hidden(marked):
        yield "hidden", f"{path}: {describe_hidden(marked[run.start : run.start + run.length], run)}"
    if is_markdown:
        yield from _concealed(path, text)
    if path == SKILL_MD and ("allowed-tools" in text or "\\" in text):
        yield from _review_frontmatter(data)
    if path == SKILL_TOML:
        yield from _review_manifest(path, data)
        text = _compiled("toml").sub(lambda found: "" if found[0][0] == "#" else found[0], text)  # without comments
    yield from (("hosts", host) for host in _hosts(text))
    if any(f"_{word}" in text for word in _SECRETS):
        for name in _compiled("capital").findall(text):
            if name.endswith(_SECRETS) and name not in _NO_SECRETS:
                yield "secrets", name
    yield from (("packages", package) for package in _packages(lowered, text))
    yield from (("commands", command) for command in _commands(lowered, text, is_markdown=is_markdown))


def _concealed(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield what a rendered page leaves out: comments, and elements that are not displayed."""
    if "<!--" in text or "]:" in text:
        for comment in re.finditer(COMMENT, text, re.DOTALL | re.MULTILINE):
            yield "hidden", f"{path}: comment {comment[0].removeprefix('<!--').strip()}"
    if "<" in text:
        for element in _compiled("concealed").finditer(text):
            yield "hidden", f"{path}: not displayed {element[0]}"


def _review_frontmatter(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        skill_md = parse_skill_md(data, description="-")
    except SkillwireError:  # installing refuses it
        return
    for run in find_hidden(skill_md.description):  # an escape of YAML spells it
        spelled = describe_hidden(skill_md.description[run.start : run.start + run.length], run)
        yield "hidden", f"SKILL.md: description: {spelled}"
    for tool in _compiled("tool").findall(skill_md.allowed_tools or ""):
        yield "tools", tool


def _review_manifest(path: str, data: bytes) -> Iterator[tuple[str, str]]:
    from skillwire.folder.manifest import entry_points, read_manifest  # noqa: PLC0415  # few skills have one

    try:
        manifest, flaws = read_manifest(data, source=path)
    except SkillwireError:
        yield "unread", _with_digest(path, data)
        return
    if flaws:
        yield "unread", _with_digest(path, data)
    for function in entry_points(manifest):
        yield "permissions", f"run {function.path} ({function.export})"
    executor = manifest.executor or {}
    if "kind" in executor:
        yield "permissions", f"executor {executor['kind']} {executor.get('url', '')}"
    yield from (("permissions", f"connect to {origin}") for origin in manifest.network)
    for secret in manifest.secrets:
        yield "permissions", f"read {secret}"
        yield "secrets", secret
    yield from (("requires", one) for one in manifest.requires)


def _hosts(text: str) -> Iterator[str]:
    for pattern, literals in (("url", ("://",)), ("mail", ("@",)), ("address", _DIGITS)):
        if any(literal in text for literal in literals):
            yield from (host.rstrip(".").lower() for host in _compiled(pattern).findall(text))
    if any(f"{client} " in text for client in _CLIENTS):
        for words in _compiled("network").findall(text):
            yield from (host.lower() for host in _compiled("bare").findall(words))


def _packages(lowered: str, text: str) -> Iterator[str]:
    name = lowered.rpartition("/")[2]
    if name.startswith("requirements") and name.endswith(".txt"):
        yield from (f"pypi:{one}" for one in _compiled("requirement").findall(text))
    if name == "package.json":
        yield from _npm_dependencies(text)
    if "dependencies" in text and name.endswith((".py", ".toml")):
        for rows in _compiled("dependencies").findall(text):
            yield from (f"pypi:{one}" for one in _compiled("quoted").findall(rows))
    for program, rest in _compiled("package").findall(text) if any(word in text for word in _INSTALLING) else ():
        yield from _installed(program, rest.replace("\\\n", " ").split())


def _installed(program: str, words: list[str]) -> Iterator[str]:
    """Yield the packages that a program of this name installs, or runs, with these arguments."""
    place, verbs = _INSTALLS[program]
    verb, start = next(((word, number) for number, word in enumerate(words, 1) if word in verbs), ("", 0))
    if verb not in verbs:
        return
    for word in words[start:]:
        bare = word.strip("\"'").rstrip(".,")
        if word.startswith("-"):
            continue
        if bare.lower() in _PROSE or not (package := _PACKAGE.match(bare)):
            return
        yield f"{place}:{package[0]}"
        if verb in _RUNS_ONE or word.endswith((".", ",")):
            return


def _npm_dependencies(text: str) -> Iterator[str]:
    try:
        document = load_json(text.encode(), max_bytes=limits.REVIEW_FILE_BYTES, source="package.json")
    except SkillwireError:
        return
    for key, value in document.items() if isinstance(document, dict) else ():
        if key.endswith(("ependencies", "scripts")) and isinstance(value, dict):
            yield from (f"npm script:{one}" if key == "scripts" else f"npm:{one}" for one in value)


def _commands(lowered: str, text: str, *, is_markdown: bool) -> Iterator[str]:
    if is_markdown:
        yield from _commands_in_markdown(text) if "`" in text or "~~~" in text else ()
    elif lowered.endswith(_SHELL_SCRIPTS) or (text.startswith("#!") and "sh" in text.split("\n", 1)[0]):
        yield from _first_words(text)
    elif any(word in text for word in _STARTING):
        yield from (one.rpartition("/")[2] for one in _compiled("started").findall(text))


def _commands_in_markdown(text: str) -> Iterator[str]:
    """Yield the programs of fenced blocks in the language of a shell or of a terminal, and of spans of code."""
    fence, lines = "", list[str]()
    language = prose = ""
    for line in [*text.split("\n"), None]:
        bare = (line or "").strip()
        if line is not None and fence and not bare.startswith(fence):
            lines.append(bare)
        elif fence:
            asked = [one[2:] for one in lines if one.startswith(("$ ", "> ", "% ", "# "))]
            if language in _SHELLS:
                yield from _first_words("\n".join(lines))
            elif language in _SESSIONS:
                yield from _first_words("\n".join(asked or lines), is_known=not asked)
            fence = ""
        elif bare.startswith(("```", "~~~")):
            fence, language, lines = bare[:3], bare.strip("`~ ").partition(" ")[0].lower(), []
        elif "`" in bare:
            prose += f"{bare}\n"
    for span in _compiled("span").findall(prose):
        program, _, rest = span.strip().removeprefix("$ ").partition(" ")
        if rest and program in _PROGRAMS:
            yield program


def _first_words(script: str, *, is_known: bool = False) -> Iterator[str]:
    """Yield the programs of a shell script: the first word of each line, and in a line only those of ``_PROGRAMS``.

    The text of a here-document, of a comment and in quotes names no program. With ``is_known`` no other is yielded.
    """
    end = quote = None
    own = {*_PLAIN, *_compiled("function").findall(script)}
    for line in script.replace("\\\n", " ").split("\n"):
        bare = _compiled("quotes").sub("_", line).partition(" #")[0].strip()
        if quote is not None or end is not None:
            quote = None if quote and quote in bare else quote
            end = None if bare == end else end
            continue
        if not bare or bare.startswith("#"):
            continue
        if "<<" in bare and (heredoc := _compiled("heredoc").search(line)):
            end = heredoc[1]
        quote = next((mark for mark in "\"'" if mark in bare), None)
        for number, segment in enumerate(_compiled("segment").split(bare)):
            word = found[1] if (found := _compiled("word").match(segment)) else ""
            name = "" if word.isupper() or word.startswith((".", "~")) else word.rpartition("/")[2]
            if name in _PROGRAMS or (name and not (number or is_known or name in own or "/" in word)):
                yield name
        yield from (wrapper for wrapper in ("sudo", "xargs") if wrapper in bare)
