"""The texts by which users name Git repositories, a folder in one, and a branch, tag, commit or version of it.

``owner/repo`` is a repository of GitHub: an origin of other protocols has a dot, a colon, or is ``localhost``. In a
pasted address of a page the branch may have slashes itself, so its first part is taken for the branch and
:mod:`skillwire.resolver.sources.git` tries longer ones. Only http and https reach a server; what would start another
program is refused here. Nothing here touches disk or network.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from skillwire.errors import UsageError, ValidationError
from skillwire.model.package import parse_range
from skillwire.trust.paths import check_path

#: The folders that ``skills`` 1.7.4 looks into, and how deep below each; then all folders if none has a skill.
SKILL_FOLDERS: Final = tuple(
    ("", 1) if not folder else (folder, 3)
    for folder in (
        "", "skills", "skills/.curated", "skills/.experimental", "skills/.system", ".agents/skills", ".claude/skills",
        ".cline/skills", ".codebuddy/skills", ".codex/skills", ".commandcode/skills", ".continue/skills",
        ".factory/skills", ".github/skills", ".goose/skills", ".grok/skills", ".iflow/skills", ".junie/skills",
        ".kilo/skills", ".kilocode/skills", ".kimchi/skills", ".kiro/skills", ".minimax/skills", ".mux/skills",
        ".neovate/skills", ".opencode/skills", ".openhands/skills", ".pi/skills", ".posit/assistant/skills",
        ".qoder/skills", ".roo/skills", ".trae/skills", ".windsurf/skills", ".zcode/skills", ".zencoder/skills",
    )
)  # fmt: skip

#: Hosts whose addresses of repositories need not end in ``.git``, since users paste them from a browser.
HOSTS: Final = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
_REF: Final = re.compile(
    r"(?![-/@])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|\Z)))[A-Za-z0-9._/+@#%=,&!()'$-]{1,200}(?<![/.])", re.ASCII
)
_PASSWORD: Final = re.compile(r"[a-z+]*://[^/@]*:[^/]*@", re.IGNORECASE)
_AT: Final = re.compile(r"(.+?[^/])@([^/].*)", re.ASCII | re.DOTALL)
_UNSUPPORTED: Final = re.compile(
    r"(?:git\+)?(?:ssh|git|ftps?|rsync|svn|scp)://(?:[^/@]*@)?(?P<host>[^/:]+)(?::[0-9]+)?/(?P<path>.*)"
    r"|[A-Za-z][A-Za-z0-9+.-]*::.*"
    r"|[^/@:]+@(?P<host2>[^/@:]+):(?!//)(?P<path2>.*)",
    re.ASCII | re.DOTALL,
)
_DOT_GIT: Final = re.compile(r"(.*/.*?\.git)(?:/(.*))?", re.DOTALL)
_PASTED: Final = re.compile(
    rf"(?:https?://)?(?:www\.)?({'|'.join(map(re.escape, HOSTS))})/([^/?#]+/[^/?#]+)/?([^?#]*?)/?(?:[?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
_PAGE: Final = re.compile(
    r"(?:-/)?(?:tree|blob|raw|commit|src|releases/tag)(?:/(?:branch|tag|commit))?/([^/]+)(?:/(.*))?"
)
_GITLAB: Final = re.compile(r"((?:https?://)?[^/]*[.:][^/]*/[^?#]+?)/(-/(?:tree|blob|raw)/[^?#]+)(?:[?#].*)?")
_SHORT: Final = re.compile(r"(?!localhost/)([A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100})(?:/(.*))?", re.DOTALL)
_TAG: Final = re.compile(r"(?:.+[-@/])?v?\d+\.\d+\.\d+(?:[-+].*)?", re.ASCII)
_SKILL_MD: Final = re.compile(r"(?:^|/)SKILL\.md\Z")


class GitPlace(NamedTuple):
    """A repository (a URL, or the path of a folder), a folder in it or a skill's name, and a ref, range or digest."""

    repository: str
    path: str = ""
    ref: str = ""


def read_git_place(text: str) -> GitPlace | None:
    """Return what a reference names in a repository; None for one of another source.

    Raises UsageError (``REFERENCE``), TrustError (a ``PATH_...`` code).
    """
    if _PASSWORD.match(text):
        raise UsageError("REFERENCE", "the URL carries a user name or a password", fix="Use SKILLWIRE_TOKENS.")
    if refused := _UNSUPPORTED.fullmatch(text):
        raise _unsupported(text, refused)
    at = _AT.fullmatch(text)
    found = _read_place(at[1] if at else text)
    if found is None:
        return None
    path = _SKILL_MD.sub("", found.path.strip("/"))
    ref = at[2] if at else found.ref
    if ref:
        check_ref(ref)
    return GitPlace(found.repository, check_path(path) if path else "", ref)


def check_ref(text: str) -> str:
    """Return the name of a branch, tag or commit, a digest, or a range; raise UsageError (``REFERENCE``)."""
    if text.startswith("sha256:") or _REF.fullmatch(text):
        return text
    try:
        return parse_range(text).text
    except Exception as error:
        message = f"{ascii(text)[:120]} is no name of a branch, tag or commit, and no version"
        raise UsageError("REFERENCE", message) from error


def is_range(ref: str) -> bool:
    """Whether a ref may be a version, or a range of these."""
    try:
        return bool(ref and parse_range(ref))
    except ValidationError:
        return False


def means_version(ref: str) -> bool:
    """Whether a ref means the tag of a version, or the best one of a range: not a branch, and not a commit."""
    return _TAG.fullmatch(ref) is not None or is_range(ref)


def _read_place(text: str) -> GitPlace | None:
    scheme, mark, rest = text.partition("://")
    is_local = text.startswith((".", "/", "~"))
    if mark and scheme in {"git+http", "git+https", "file", "git+file"}:
        return _read_marked(text, scheme, rest)
    if (page := _GITLAB.fullmatch(text)) and (split := _PAGE.fullmatch(page[2])):
        return GitPlace(page[1], split[2] or "", split[1])
    if pasted := _PASTED.fullmatch(text):
        repository = f"https://{pasted[1].lower()}/{pasted[2].removesuffix('.git')}"
        page = _PAGE.fullmatch(pasted[3])
        return GitPlace(repository, page[2] or "", page[1]) if page else GitPlace(repository, pasted[3])
    if not is_local and not mark and (short := _SHORT.fullmatch(text)):
        return GitPlace(f"https://github.com/{short[1].removesuffix('.git')}", short[2] or "")
    if (split := _DOT_GIT.fullmatch(text)) and (is_local or scheme in {"http", "https"} or not mark):
        return GitPlace(split[1], split[2] or "")
    return None


def _read_marked(text: str, scheme: str, rest: str) -> GitPlace:
    """Read an address whose scheme says that it is a repository; ``//`` ends it where it has no ``.git``."""
    split = None if "//" in rest else _DOT_GIT.fullmatch(rest)
    repository, _, path = (split[1], "", split[2] or "") if split else rest.partition("//")
    if not scheme.endswith("file"):
        return GitPlace(f"{scheme.removeprefix('git+')}://{repository}", path)
    if not repository.startswith("/"):
        fix = "Write three slashes, as in file:///srv/skills.git."
        raise UsageError("REFERENCE", f"{ascii(text)[1:-1][:120]} names a host", fix=fix)
    is_bare = repository.rstrip("/").endswith(".git")
    return GitPlace(repository if is_bare else f"{repository.rstrip('/')}/.git", path)


def _unsupported(text: str, match: re.Match[str]) -> UsageError:
    host, path = match["host"] or match["host2"], (match["path"] or match["path2"] or "").strip("/")
    fix = "Write an https address."
    if host and path:
        fix = f"Write https://{host}/{path.removesuffix('.git')}.git; SKILLWIRE_TOKENS may have its token."
    message = f"{ascii(text)[1:-1][:120]} would start another program; repositories are read over https alone"
    return UsageError("REFERENCE", message, fix=fix)
