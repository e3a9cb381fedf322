"""Skills of a Git repository: its folders, its tags as versions, and the exact bytes of a commit.

One commit is read without its history, and without the files that no skill needs where the server can filter. Where
the host offers archives, the commit's archive comes instead. Nothing is checked out: the files of a skill are taken
from the objects by name, go through the rules for archives, and are packed again, so that a digest identifies them.

A tag ``1.2.0``, ``v1.2.0`` or, for one skill of several, ``name-v1.2.0``, ``name@1.2.0`` or ``name/v1.2.0`` is a
version; where a skill has tags of its own these alone count. The folders in which skills are found are those of the
most used installer (``skills`` of npm).

Trust: the repository is hostile. Requests obey the address policy as every other one.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    did_you_mean,
)
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.manifest import read_manifest
from skillwire.folder.pack import zip_files
from skillwire.model.digest import Digest
from skillwire.model.ref import LOCAL, GitFacts, GitFile, Release, SkillRef
from skillwire.model.skill import SKILL_MD, SKILL_TOML, is_skill_name, is_version
from skillwire.resolver.context import Attempt, ResolveContext, as_finding
from skillwire.resolver.git_references import SKILL_FOLDERS, check_ref, is_range
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources import Lookup, Source
from skillwire.resolver.sources.agent_skills import usable_versions
from skillwire.trust.git_objects import Tree, plan_skill, read_commit, read_pack, read_repository_archive
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, work
from skillwire.wire.fetch import ABSENT, DENIED, fetch
from skillwire.wire.git import (
    VERSION as GIT_VERSION,
)
from skillwire.wire.git import (
    Ref,
    ask_objects,
    ask_refs,
    read_capabilities,
    read_objects,
    read_refs,
)

#: Host → the address of a commit's archive.
ARCHIVES: dict[str, str] = {"github.com": "{repository}/archive/{ref}.tar.gz"}
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_DUMB: Final = re.compile(rb"[0-9a-f]{40}\trefs/")
_TAG: Final = re.compile(r"refs/tags/(?:(.+?)[-@/])?v?(\d+\.\d+\.\d+(?:[-+].*)?)", re.ASCII)
_OK: Final = 200
_TYPE: Final = "application/x-git-upload-pack-"
_TOO_LARGE: Final = frozenset({"BODY_TOO_LARGE", "GIT_SIZE"})

_SKIPPED: Final = frozenset({"node_modules", ".git", "dist", "build", "__pycache__"})
_EVERYWHERE: Final = 5


def find_skill_folders(tree: Tree, below: str = "") -> list[str]:
    """Return the folders of skills in ``below``, which may be one itself; the first has precedence over its equals."""
    marked = {file.path.rpartition("/")[0] for file in tree.files if file.path.rpartition("/")[2] == SKILL_MD}
    children: dict[str, list[str]] = {}
    for folder in sorted(tree.folders):
        if folder:
            children.setdefault(folder.rpartition("/")[0], []).append(folder)

    def walk(folder: str, depth: int, *, nested: bool = False) -> Iterator[str]:
        for child in children.get(folder, ()):
            if child in marked:
                yield child
            if (nested or child not in marked) and depth > 1 and child.rpartition("/")[2] not in _SKIPPED:
                yield from walk(child, depth - 1, nested=nested)

    if below in marked:
        return [below]
    prefix = f"{below}/" if below else ""
    found = [one for folder, depth in SKILL_FOLDERS for one in walk(f"{prefix}{folder}".rstrip("/"), depth)] or [
        *walk(below, _EVERYWHERE, nested=True)
    ]
    return list(dict.fromkeys(found))


def tag_versions(refs: Mapping[str, Ref], skill: str | None) -> dict[str, Ref]:
    """Return the tag of each version of a skill."""
    plain: dict[str, Ref] = {}
    named: dict[str, Ref] = {}
    for ref in refs.values():
        if (match := _TAG.fullmatch(ref.name)) and is_version(match[2]) and match[1] in {None, skill}:
            (named if match[1] else plain)[match[2]] = ref
    return named or plain


class _Commit(NamedTuple):
    """A commit that was chosen: its name, version and the ref that led to it; ``rest`` is the path behind the ref."""

    name: str
    version: str | None
    ref: str
    rest: str


class GitSource(Source):
    """The source of Git repositories."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context
        self._objects, self._servers = context.git

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the skill of a folder or name in a repository, or all.

        Raises NotFoundError (``GIT_REPOSITORY``, ``GIT_REF``, ``VERSION_NOT_FOUND``, ``SKILL_NOT_FOUND``).
        """
        if self._context.offline:
            raise FetchError("OFFLINE", "a repository is not cached", place=SourceLocation(lookup.url))
        if "://" not in lookup.url:
            lookup = lookup._replace(url=os.path.abspath(os.path.expanduser(lookup.url)))  # noqa: PTH100, PTH111  # for relpath
        if sum(map(len, self._objects.values())) > limits.GIT_OBJECT_BYTES:
            self._objects.clear()
        if lookup.version.startswith("sha256:"):
            return (yield from self._find_digest(lookup))
        chosen = yield from self._from_archive(lookup)
        if chosen is None:
            chosen = yield from self._choose(lookup)
            yield from self._load_commit(lookup.url, chosen.name)
        tree = read_commit(chosen.name, self._objects)
        path = chosen.rest
        folders = find_skill_folders(tree, path) if path in tree.folders else []
        named = None
        if not folders and path and "/" not in path:
            folders, named = find_skill_folders(tree), path
        skills = yield from self._read_skills(lookup.url, chosen, tree, folders)
        if named is not None:
            skills, others = [one for one in skills if one.name == named], skills
            if not skills:
                fix = did_you_mean(named, [one.name for one in others])
                raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.url} has no skill {named}", fix=fix)
        attempt = Attempt(lookup.url, self._context.credential_for(lookup.url) is not None, "origin")
        self._context.trace(attempt._replace(generation="git", entries=len(skills)))
        if not skills:
            raise NotFoundError("SKILL_NOT_FOUND", f"there is no skill in {lookup.url} {path}".rstrip())
        return list({one.name: one for one in reversed(skills)}.values())[::-1]

    def versions(self, skill: SkillRef) -> Flow[list[SkillRef]]:
        """Return the versions that tags name, the highest first."""
        assert skill.git is not None  # noqa: S101  # callers ask skills of repositories alone
        refs = yield from self._refs(_url(skill, self._context), ["refs/tags/"])
        found = [
            skill._replace(
                version=version, digest=None, release=Release(), git=GitFacts(ref.commit, skill.git.path, "", version)
            )
            for version, ref in tag_versions(refs, skill.name).items()
        ]
        return usable_versions(found)

    def fetch(self, skill: SkillRef) -> Flow[bytes]:
        """Return a skill packed, from exactly its commit; raise TrustError (``DIGEST_MISMATCH``)."""
        facts, url = skill.git, _url(skill, self._context)
        assert facts is not None  # noqa: S101  # as above
        files = facts.files
        if not files:
            yield from self._load_commit(url, facts.commit)
            tree = read_commit(facts.commit, self._objects)
            files = _files_below(tree, facts.path)
        objects = {**self._objects, **(yield from self._load(url, [file.blob for file in files]))}
        content = yield from work(lambda: zip_files(plan_skill(files, objects).files, deflates=False))
        if skill.digest is not None and Digest.of(content) != skill.digest:
            message = f"commit {facts.commit} has other files of {skill.name} than the lock"
            raise TrustError("DIGEST_MISMATCH", message, place=SourceLocation(skill.origin))
        return content

    def _find_digest(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the newest of the present version and the tagged ones that has a digest."""
        (skill,) = yield from self.resolve(lookup._replace(version=""))
        for tagged in [skill, *(yield from self.versions(skill))][: limits.GIT_VERSIONS_TRIED]:
            content = yield from self.fetch(tagged._replace(digest=None))
            if Digest.of(content) == lookup.version:
                again = lookup._replace(version=tagged.git.ref if tagged.git else "")
                (found,) = yield from self.resolve(again)
                assert found.git is not None  # noqa: S101  # it is of this source
                return [found._replace(digest=Digest(lookup.version), git=found.git._replace(ref=lookup.version))]
        message = f"no tagged version of {skill.name} has the digest {lookup.version}"
        fix = f"List the versions: skillwire show {reference_to(skill)} --versions."
        raise NotFoundError("VERSION_NOT_FOUND", message, fix=fix)

    def _read_skills(self, url: str, chosen: _Commit, tree: Tree, folders: Sequence[str]) -> Flow[list[SkillRef]]:
        files = {folder: _files_below(tree, folder) for folder in folders}
        is_one = len(folders) == 1
        described = (SKILL_MD, SKILL_TOML)
        needed = [file.blob for some in files.values() for file in some if is_one or file.path in described]
        self._objects.update((yield from self._load(url, needed)))
        found = []
        for folder in folders:
            facts = GitFacts(chosen.name, folder, tree.folders[folder], chosen.ref, files[folder])
            try:
                skill = self._read_skill(url, facts, chosen.version)
            except SkillwireError as error:
                if is_one:
                    raise
                self._context.report(as_finding(error)._replace(level="warning"))
            else:
                found.append(skill)
        return found

    def _read_skill(self, url: str, facts: GitFacts, version: str | None) -> SkillRef:
        content = {file.path: self._objects[file.blob] for file in facts.files if file.blob in self._objects}
        place = f"{url}/{facts.path}".rstrip("/")
        manifest = None
        if SKILL_TOML in content:
            manifest, _ = read_manifest(content[SKILL_TOML], source=f"{place}/{SKILL_TOML}")
        stated = manifest.description if manifest and manifest.name else None
        skill_md = parse_skill_md(content.get(SKILL_MD, b""), source=f"{place}/{SKILL_MD}", description=stated)
        name = skill_md.name if is_skill_name(skill_md.name) else facts.path.rpartition("/")[2]
        if not is_skill_name(name):
            raise NotFoundError("SKILL_NOT_FOUND", f"{skill_md.name[:80]!r} is no name of a skill")
        own = (manifest and manifest.version) or skill_md.metadata.get("version", "")
        is_local = "://" not in url
        if is_local:  # relative, so that a project keeps working when it is moved
            url = os.path.relpath(url, self._context.root).replace(os.sep, "/")
        return SkillRef(
            name=name,
            origin=f"{LOCAL}{url}" if is_local else url,
            description=skill_md.description,
            version=version or (own if is_version(own) else None),
            digest=None,
            found_via="git",
            fetched_at=self._context.clock(),
            capabilities=manifest.capabilities if manifest else (),
            scenes=manifest.scenes if manifest else (),
            tags=manifest.tags if manifest else (),
            requires=manifest.requires if manifest else (),
            artifact_type="git",
            url=url,
            index_url="" if is_local else url,
            git=facts,
        )

    def _choose(self, lookup: Lookup) -> Flow[_Commit]:
        """Return the commit that a ref means: a tag, a version, a branch, a commit, or the best tag of a range."""
        wanted, path, place = lookup.version, lookup.name or "", SourceLocation(lookup.url)
        may_be_range = is_range(wanted)
        prefixes = ["HEAD"] if not wanted else ["refs/tags/" if may_be_range else f"refs/tags/{wanted}"]
        refs = yield from self._refs(lookup.url, [*prefixes, *([f"refs/heads/{wanted}"] if wanted else [])])
        versions = tag_versions(refs, path.rpartition("/")[2] or None)
        if not wanted:
            if "HEAD" not in refs:
                is_empty = not (yield from self._refs(lookup.url, ["refs/heads/"]))
                what = f"the repository has no commit{'' if is_empty else ' on its default branch'}"
                fix = "Commit the skill there first." if is_empty else "Name another branch after an @."
                raise NotFoundError("GIT_REF", what, place=place, fix=fix, in_python="")
            return _Commit(refs["HEAD"].commit, None, "", path)
        parts = path.split("/") if path else []
        for number in range(len(parts) + 1):  # a pasted address of a branch with slashes
            name = "/".join([wanted, *parts[:number]])
            for kind in ("refs/tags/", "refs/heads/"):
                if ref := refs.get(kind + name):
                    match = _TAG.fullmatch(ref.name)
                    version = match[2] if match and is_version(match[2]) else None
                    return _Commit(ref.commit, version, name, "/".join(parts[number:]))
        if wanted in versions:
            return _Commit(versions[wanted].commit, wanted, wanted, path)
        if _COMMIT.fullmatch(wanted):
            return _Commit(wanted, None, wanted, path)
        if not may_be_range:
            raise NotFoundError("GIT_REF", f"there is no branch or tag {wanted}", place=place)
        best = usable_versions([SkillRef("", "", "", version, None, "git", 0.0) for version in versions], wanted)
        if not best:
            there = ", ".join(list(versions)[:8])
            fix = f"Name one of these: {there}." if there else "Name a branch or a commit: no tag is a version."
            raise NotFoundError("VERSION_NOT_FOUND", f"{lookup.url} has no tag in {wanted}", fix=fix)
        version = str(best[0].version)
        return _Commit(versions[version].commit, version, wanted, path)

    def _from_archive(self, lookup: Lookup) -> Flow[_Commit | None]:
        """Return the commit whose archive the host has given; None where it offers none that can be read."""
        template = ARCHIVES.get(lookup.url.partition("://")[2].partition("/")[0])
        ref = lookup.version or "HEAD"
        if template is None or is_range(lookup.version) or self._context.credential_for(lookup.url) is not None:
            return None
        url = template.format(repository=lookup.url, ref=check_ref(ref))
        try:
            response = yield from fetch(HttpRequest(url, headers={"Accept": "*/*"}, max_bytes=limits.ARCHIVE_BYTES))
            if response.status != _OK:
                return None
            commit, objects = yield from work(partial(read_repository_archive, response.body))
        except SkillwireError:  # the repository itself is asked
            return None
        if _COMMIT.fullmatch(ref) and commit != ref:
            return None
        self._objects.update(objects)
        match = _TAG.fullmatch(f"refs/tags/{ref}")
        return _Commit(commit, match[2] if match else None, lookup.version, lookup.name or "")

    def _refs(self, url: str, prefixes: Iterable[str]) -> Flow[dict[str, Ref]]:
        return read_refs((yield from self._ask(url, ask_refs(prefixes), limits.GIT_REFS_BYTES)))

    def _load_commit(self, url: str, commit: str) -> Flow[None]:
        """Load a commit and its folders, with the files of a small repository, and all where the server filters none.

        A second question costs more than the files of a small repository, so that these are asked for at once.
        """
        if commit in self._objects:
            return
        filters = url not in self._servers or "filter" in self._servers[url][1]
        wanted, most = ("blob:limit=64k", limits.GIT_SMALL_PACK_BYTES) if filters else ("", limits.GIT_PACK_BYTES)
        while True:
            try:
                objects = yield from self._load(url, [commit], depth=True, filtered=wanted, max_bytes=most)
            except (DecodeError, FetchError, TrustError) as error:
                if not wanted or error.code not in {"GIT_REFUSED", "GIT_ANSWER", *_TOO_LARGE}:
                    raise
                is_small = most != limits.GIT_PACK_BYTES
                other = error.code in _TOO_LARGE or "not supported" in str(error)  # of this kind; else it filters none
                wanted, most = "blob:none" if is_small and other else "", limits.GIT_PACK_BYTES
            else:
                self._objects.update(objects)
                return

    def _load(
        self,
        url: str,
        names: Iterable[str],
        *,
        depth: bool = False,
        filtered: str = "",
        max_bytes: int = limits.GIT_PACK_BYTES,
    ) -> Flow[dict[str, bytes]]:
        """Return those of the named objects that are not there yet, and what came with them."""
        missing = sorted({name for name in names if name not in self._objects})
        if not missing:
            return {}
        answer = yield from self._ask(url, ask_objects(missing, depth=depth, filtered=filtered), max_bytes)
        found = yield from work(lambda: read_pack(read_objects(answer)))
        if absent := [name for name in missing if name not in found]:
            raise DecodeError("GIT_ANSWER", f"the server left out {absent[0]}")
        return found

    def _ask(self, url: str, body: bytes, max_bytes: int) -> Flow[bytes]:
        """Return the answer to a request; a server is asked for its features only where it does not answer."""
        if "://" not in url:
            return (yield from work(partial(self._context.upload_pack, url, body, max_bytes)))
        place = self._servers[url][0] if url in self._servers else url
        request = HttpRequest(f"{place}/git-upload-pack", "POST", body=body, max_bytes=max_bytes)
        try:
            return (yield from self._send(request, "result")).body
        except SkillwireError as error:
            if url in self._servers or error.code in _TOO_LARGE:
                raise
        # This follows redirects, and raises why there is no repository.
        asked = HttpRequest(f"{url}/info/refs?service=git-upload-pack", max_bytes=limits.GIT_REFS_BYTES)
        response = yield from self._send(asked, "advertisement")
        self._servers[url] = (response.url.partition("/info/refs")[0], read_capabilities(response.body))
        return (yield from self._ask(url, body, max_bytes))

    def _send(self, request: HttpRequest, kind: str) -> Flow[HttpResponse]:
        headers = {"Accept": f"{_TYPE}{kind}", "Git-Protocol": GIT_VERSION}
        if request.body is not None:
            headers["Content-Type"] = f"{_TYPE}request"
        if (credential := self._context.credential_for(request.url)) is not None:
            scheme, _, token = credential.partition(" ")
            if scheme == "Bearer":  # hosts of repositories take tokens as passwords alone
                credential = f"Basic {base64.b64encode(f'x-access-token:{token}'.encode()).decode()}"
            headers["Authorization"] = credential
        response = yield from fetch(request._replace(headers=headers))
        place = SourceLocation(request.url.partition("/info/refs")[0])
        if response.status in DENIED:
            raise FetchError(
                "AUTH_REQUIRED", f"the server answered {response.status}: it is private or absent", place=place
            )
        if response.status == _OK and _DUMB.match(response.body):
            message = "the server only offers the files of a repository (dumb HTTP), and does not run Git"
            fix = "Serve it with git http-backend, or clone it and add from its folder."
            raise DecodeError("GIT_ANSWER", message, place=place, fix=fix)
        is_git = response.headers.get("content-type", "").partition(";")[0] == f"{_TYPE}{kind}"
        if response.status in ABSENT or (response.status == _OK and not is_git):
            raise NotFoundError("GIT_REPOSITORY", "no Git repository is there, or it is private", place=place)
        if response.status != _OK:
            raise FetchError("HTTP_STATUS", f"the server answered {response.status}", place=place)
        return response


def _url(skill: SkillRef, context: ResolveContext) -> str:
    """Return where the repository of a skill is; one of this machine is relative to the project."""
    return str((context.root / skill.url).absolute()) if skill.is_local else skill.url


def _files_below(tree: Tree, folder: str) -> tuple[GitFile, ...]:
    prefix = f"{folder}/" if folder else ""
    return tuple(
        file._replace(path=file.path.removeprefix(prefix)) for file in tree.files if file.path.startswith(prefix)
    )
