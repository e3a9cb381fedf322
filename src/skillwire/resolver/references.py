"""What a user types to mean a skill, or all skills of a place.

A reference is one of

- ``example.com/name`` or ``https://example.com/name``: a skill of an origin; a longer path is a scope;
- ``example.com``, or a URL as it was pasted, ``.../.well-known/agent-skills`` and ``.../index.json``
  included: every skill of that index;
- ``https://example.com/skills/name``, the address of a skill's page or of a file's below it, as a browser shows it;
- ``./folder``, ``/folder`` or ``~/folder``: a folder on this machine;
- ``lan:``: every skill of the local network;
- ``https://example.com/.well-known/skill-sharing``, the URL of a Skill Descriptor (``.../weather.json``) or of a
  registry (``.../skills``): what Skill Sharing says there;
- ``https://example.com/rpc#ns.domain.action``: a skill of an endpoint of the Skills Protocol, by its dotted name; with
  ``#ns.`` every skill of a namespace, with ``#`` alone every skill. A URL whose path does not end in ``rpc`` is one of
  an endpoint where the part behind its ``#`` has a dot, and is not the address of a page;
- ``example.com/@acme/name``: a skill of a registry's namespace; ``example.com/acme/name`` too, where nothing else is;
- ``owner/repo``, ``owner/repo/path``, ``https://example.com/x.git``, ``./x.git``: skills of a Git repository, here of
  GitHub, since other origins have a dot, a colon, or are ``localhost``; with ``@v1.2.0`` a tag, branch, commit, range;
- one of these for a single skill with ``@1.2.0``, ``@^1.2`` or ``@sha256:...``: that version, a range, an artifact;
- ``name``: looked up in the configured sources, in their order.

``lan:CAPABILITY`` means any provider of a capability on the local network, not one skill; only a call takes it
(:func:`lan_capability`).

Reading a reference touches neither disk nor network. Its lookups are tried in order; the first source that has the
skill wins.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from skillwire.errors import UsageError, ValidationError
from skillwire.model.package import parse_range
from skillwire.model.ref import LOCAL, SkillRef
from skillwire.model.skill import is_dotted_name, is_skill_name
from skillwire.model.url import Url, parse_url
from skillwire.protocols.agent_skills.messages import WELL_KNOWN, WELL_KNOWN_OLD
from skillwire.protocols.skill_sharing import REGISTRY as SHARING_REGISTRY
from skillwire.protocols.skill_sharing import WELL_KNOWN as SHARING_WELL_KNOWN
from skillwire.resolver.git_references import GitPlace, read_git_place
from skillwire.resolver.sources import BUILT_IN, FOLDER, GIT, LAN, SKILL_SHARING, SKILLS_RPC, SOURCES, Lookup
from skillwire.trust.address import scheme_of

#: The path of an endpoint ends with it, unless its owner chose otherwise. Spec: specs §4.
_RPC: Final = "rpc"
_LAN: Final = f"{LAN}:"
#: A capability as datagrams carry it; digits alone would be the port of a host that is named lan. Spec: specs §3.
_CAPABILITY: Final = re.compile(r"(?!\d+\Z)[A-Za-z0-9._-]{1,128}", re.ASCII)
#: A version behind a reference; an ``@`` behind a slash begins a namespace, and files may have any name.
_VERSION: Final = re.compile(r"((?!.*/(?:files|\.well-known)/).*[^/])@([^/@]+)", re.ASCII | re.DOTALL)
_ARCHIVE_EXTENSIONS: Final = (".tar.gz", ".zip", ".skill")


class Reference(NamedTuple):
    """A reference, read: either ``lookups`` or a bare ``name``.

    ``fallback`` are lookups in the other protocols, for a skill that Agent Skills Discovery does not have.
    """

    text: str
    lookups: tuple[Lookup, ...] = ()
    name: str | None = None
    fallback: tuple[Lookup, ...] = ()
    version: str = ""

    @property
    def path(self) -> str | None:
        """The folder that it names."""
        return next((lookup.url for lookup in self.lookups if lookup.source == FOLDER), None)

    @property
    def registry(self) -> Lookup | None:
        """The registry that it may name: where its address ends with ``/skills``. Spec: SSP §4.2."""
        wholes = (lookup for lookup in self.fallback if lookup.name is None)
        return next((one for one in wholes if one.url.partition("?")[0].rstrip("/").endswith(SHARING_REGISTRY)), None)


def parse_reference(text: str) -> Reference:
    """Read the text that a user typed. Raises UsageError (``REFERENCE``), with the form to write instead."""
    if text.partition(":")[0] not in {LAN, *(SOURCES.keys() - BUILT_IN)} and (place := read_git_place(text)):
        return _in_repository(text, place)
    if text == _LAN or text.startswith((".", "/", "~")):
        return Reference(text, (Lookup(text, source=LAN if text == _LAN else FOLDER),))
    if found := _VERSION.fullmatch(text):
        return _with_version(text, *found.groups())
    source, colon, rest = text.partition(":")
    if colon and source in SOURCES.keys() - BUILT_IN:
        at, _, name = rest.partition("#")
        return Reference(text, (Lookup(at, name or None, source=source),))
    if text.startswith(_LAN) and not text[4:].partition("/")[0].isdigit():
        what = text[4:64] if text[4:].isascii() else "CAPABILITY"
        fix = f"skillwire find {what} --lan lists them; give the reference of one."
        raise UsageError("REFERENCE", "lan: means any provider of a capability, which only call takes", fix=fix)
    host, _, _ = text.partition("/")
    if "." in host or ":" in host or host == "localhost":  # the colon of a scheme included
        return _web_reference(text, _url(text))
    if is_skill_name(text):
        return Reference(text, name=text)
    fix = f"write ./{text} for a folder, or example.com/name for a skill of an origin"
    raise UsageError("REFERENCE", f"cannot read the reference {ascii(text)[:120]}", fix=fix)


def _in_repository(text: str, place: GitPlace) -> Reference:
    url = place.repository
    if not url.startswith((".", "/", "~")):
        url = str(_url(url)).rstrip("/")
    return Reference(text, (Lookup(url, place.path or None, source=GIT, version=place.ref),), version=place.ref)


def _with_version(text: str, skill: str, version: str) -> Reference:
    """Return the reference of a skill in a version. Raises UsageError (``VERSION_RANGE``, ``REFERENCE``)."""
    if not version.startswith("sha256:"):
        try:
            parse_range(version)
        except ValidationError as error:
            raise UsageError(error.code, error.message, fix=error.fix) from error
    found = parse_reference(skill)
    lookups = tuple(one._replace(version=version) for one in found.lookups if one.name)
    if not (lookups or found.name):
        raise UsageError("REFERENCE", f"{ascii(skill)[:120]} is no single skill, so it has no versions")
    return found._replace(text=text, lookups=lookups, fallback=(), version=version)


def at_version(text: str, version: str) -> str:
    """Return the reference ``text`` with ``version`` in place of its own."""
    own = parse_reference(text).version
    return f"{text.removesuffix(f'@{own}') if own else text}@{version}"


def lan_capability(text: str) -> str | None:
    """Return the capability of a reference ``lan:CAPABILITY``; None for any other reference.

    Raises UsageError (``REFERENCE``) for a malformed capability.
    """
    name = text.removeprefix(_LAN)
    if name == text or name.isdigit() or "/" in name:  # a port, and a path: this is a host named lan
        return None
    if _CAPABILITY.fullmatch(name) is None:
        fix = "Write lan: and one capability, such as lan:org-data-read; skillwire find --lan lists them."
        raise UsageError("REFERENCE", f"cannot read the reference {ascii(text)[:120]}", fix=fix)
    return name


def agent_skills_at(site: str) -> Lookup:
    """Return the lookup of a site's index of Agent Skills Discovery."""
    url = parse_url(site)
    return _index_of(url, url.path.rstrip("/"))


def sharing_at(url: str, name: str | None = None) -> Lookup:
    """Return the lookup of the Skill Sharing index at the origin of ``url``. Spec: SSP §4.3.1."""
    return Lookup(parse_url(url).origin + SHARING_WELL_KNOWN, name, source=SKILL_SHARING)


def sharing_below(site: str, name: str | None = None) -> Lookup:
    """Return the lookup of the Skill Sharing index of a site, which may be a part of its origin."""
    return Lookup(site.rstrip("/") + SHARING_WELL_KNOWN, name, source=SKILL_SHARING)


def endpoint_url(text: str) -> str:
    """Return the URL of an endpoint, given with or without its scheme, and without its part behind ``#``."""
    return str(_url(text))


def parse_source(text: str) -> Lookup:
    """Read the address of a source, as ``--from`` and the settings name it: an origin, a scope or an index URL."""
    reference = parse_reference(text)
    if not reference.lookups or reference.path is not None:
        raise UsageError("REFERENCE", f"not the address of a source: {ascii(text)[:120]}", fix="write example.com")
    last = reference.lookups[-1]._replace(name=None)
    return next((lookup for lookup in reference.lookups if lookup.name is None), last)


def registry_address(text: str) -> str:
    """Return the URL of a registry, given with or without its scheme. Raises ValidationError (``URL``), UsageError."""
    is_bare = is_skill_name(text) and text != "localhost"
    return str(parse_url(text)) if is_bare else endpoint_url(text)


def reference_to(ref: SkillRef) -> str:
    """Return the shortest text that names ``ref``; for a skill that is only described, its descriptor's URL."""
    if ref.shared is not None and ref.is_only_described:
        return ref.shared.descriptor_url
    if ref.rpc is not None:
        return f"{_shortest(ref.rpc.endpoint)}#{ref.name}"
    if ref.git is not None:
        place = ref.url if ref.is_local else _shortest(ref.origin)
        place = f"./{place}" if ref.is_local and not place.startswith((".", "/")) else place
        text = f"{place}/{ref.git.path}".rstrip("/")
        in_repository = read_git_place(text)
        is_read_so = in_repository is not None and in_repository.path == ref.git.path
        return text if is_read_so else f"git+{ref.origin}//{ref.git.path}".rstrip("/")
    if ref.found_via in SOURCES.keys() - BUILT_IN:
        return f"{ref.found_via}:{ref.origin}#{ref.name}"
    if ref.origin.startswith(LOCAL):
        folder = ref.origin.removeprefix(LOCAL)
        return f"{folder}/{ref.name}" if folder.startswith((".", "/")) else f"./{folder}/{ref.name}"
    return f"{_shortest(ref.origin)}/{ref.name}"


def exact_reference_to(ref: SkillRef) -> str:
    """Return the text that names ``ref`` in its version, where its source has several; of Git in its commit."""
    version = ref.git.commit if ref.git else ref.version if ref.release else ""
    return at_version(reference_to(ref), version) if version else reference_to(ref)


def _shortest(url: str) -> str:
    """Return ``url`` without its scheme where that is the default."""
    scheme, _, rest = url.partition("://")
    return rest if _url(rest).scheme == scheme else url


def _url(text: str) -> Url:
    """Return a URL that may lack its scheme."""
    try:
        return parse_url(text if "://" in text else f"{scheme_of(text)}://{text}")
    except ValidationError as error:
        raise UsageError("REFERENCE", f"cannot read the reference: {error.message}", fix=error.fix) from error


def _web_reference(text: str, url: Url) -> Reference:
    path = url.path.rstrip("/")
    page = _page(path)
    if page is None and (meant := _endpoint_lookup(text, url)) is not None:
        return Reference(text, lookups=(meant,))
    is_document = path.endswith(".json") and not path.endswith("/index.json") and page is None
    whole = Lookup(str(url), source=SKILL_SHARING)
    if path.endswith(SHARING_WELL_KNOWN) or (is_document and "/.well-known/" not in path):
        return Reference(text, lookups=(whole,))
    lookups = _lookups(url)
    if "/.well-known/" in path or (path.endswith("/index.json") and page is None):
        return Reference(text, lookups=lookups)
    fallback = [sharing_at(str(url), path.strip("/") or None)]
    parts = path.split("/")
    for length in (1, 2):  # a name, or an id, of a site below a path
        site = "/".join(parts[:-length])
        if site and not parts[-length - 1].startswith("@"):
            fallback.append(sharing_below(url.origin + site, "/".join(parts[-length:])))
    if path.rpartition("/")[2] == _RPC:
        fallback.append(Lookup(str(url), source=SKILLS_RPC))
    if path and ("://" in text or path.endswith(SHARING_REGISTRY)):
        fallback.append(whole)
    if page is not None:  # the last, since a place may really have skills below such a path
        before, name = page
        lookups = (*lookups, _index_of(url, before, name))
        fallback.append(sharing_at(str(url), name))
    return Reference(text, lookups=lookups, fallback=tuple(fallback))


def _endpoint_lookup(text: str, url: Url) -> Lookup | None:
    """Return the lookup of the part behind ``#`` at an endpoint; None for one that only browsers use."""
    _, mark, name = text.partition("#")
    is_rpc = url.path.rstrip("/").endswith(_RPC)
    if not mark or "/.well-known/" in url.path or url.path.endswith(".json") or not (is_rpc or "." in name):
        return None
    if name and name != "." and not is_dotted_name(name.removesuffix(".")):
        if not is_rpc:
            return None
        fix = f"Write a dotted name, such as {text.partition('#')[0]}#ns.domain.action."
        raise UsageError("REFERENCE", f"{ascii(name)[:120]} is no name of the Skills Protocol", fix=fix)
    return Lookup(str(url), name if name not in {"", "."} else None, source=SKILLS_RPC)


def _page(path: str) -> tuple[str, str] | None:
    """Return the part before ``/skills/NAME``, and the name, if ``path`` may be that of a page for people."""
    before, found, after = path.rpartition(f"{SHARING_REGISTRY}/")
    if "/files/" in path:  # a file of the skill may itself lie below a folder named skills
        before, found, after = path.partition("/files/")[0].rpartition(f"{SHARING_REGISTRY}/")
    return (before, after) if found and is_skill_name(after) else None


def _lookups(url: Url) -> tuple[Lookup, ...]:
    path = url.path.rstrip("/")
    for well_known in (WELL_KNOWN, WELL_KNOWN_OLD):
        before, found, after = path.partition(well_known)
        if found and (not after or after.startswith("/")):
            # Whichever generation was pasted: an origin that gives digests is asked for them first.
            # The rest may be ``name``, ``name/SKILL.md`` or ``name.tar.gz``.
            name = after.strip("/").partition("/")[0]
            for extension in _ARCHIVE_EXTENSIONS:
                name = name.removesuffix(extension)
            return (_index_of(url, before, name if is_skill_name(name) else None),)
    if path.endswith("/index.json"):
        return (Lookup(url.origin + path),)
    scope, _, last = path.rpartition("/")
    whole = _index_of(url, path)
    if not is_skill_name(last):
        return (whole,)
    namespaced = (_index_of(url, f"/@{scope[1:]}", last),) if is_skill_name(scope[1:]) else ()
    return (_index_of(url, scope, last), *namespaced, whole)


def _index_of(url: Url, scope: str, name: str | None = None) -> Lookup:
    base = url.origin + scope
    return Lookup(f"{base}{WELL_KNOWN}/index.json", name, f"{base}{WELL_KNOWN_OLD}/index.json")
