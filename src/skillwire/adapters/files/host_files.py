"""Files that tell static hosts to answer as our own server does: types, who may read, how long to keep.

Two things matter, and hosts get them wrong without help: an artifact must arrive byte by byte (a host that takes
``.tar.gz`` for a compressed ``.tar`` breaks its digest), and a page out of a skill must not run under our origin.
What every host does by itself, such as asking again for what may change, is left to it. The rules concern the
paths of the skills alone, as a site may hold other things; and a field is set by one rule only, because some hosts
join what several rules say.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillwire.protocols.agent_skills.fields import CONTENT_FIELDS, OPEN_FIELDS
from skillwire.protocols.agent_skills.media import BYTES, JSON, MARKDOWN, MEDIA_TYPES
from skillwire.protocols.agent_skills.server import Cache
from skillwire.protocols.skill_sharing.paths import WELL_KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FIELDS: Final = {**OPEN_FIELDS, **CONTENT_FIELDS}
_FOREVER: Final = {"Cache-Control": Cache.FOREVER.value}
#: Below these, ``*`` stands for anything that follows.
_SITE: Final = ("/.well-known/*", "/@*")
_BY_DIGEST: Final = "/.well-known/agent-skills/sha256/*"
#: A name without an ending, of which no host knows the type.
_TYPED: Final = {WELL_KNOWN: {"Content-Type": JSON}}


def host_files(hosts: Iterable[str]) -> dict[str, bytes]:
    """Return path → content of what ``hosts`` (keys of :data:`HOSTS`) read."""
    return {path: write().encode() for host in hosts for path, write in [HOSTS[host]]}


def _headers() -> str:
    """Cloudflare Pages and Workers, Netlify, and others that took the form over."""
    rules = [*((path, _FIELDS) for path in _SITE), (_BY_DIGEST, _FOREVER), *_TYPED.items()]
    lines = [[path, *(f"  {name}: {value}" for name, value in fields.items())] for path, fields in rules]
    return "\n".join(line for rule in lines for line in rule) + "\n"


def _vercel() -> str:
    rules = [(path.replace("*", "(.*)"), _FIELDS) for path in _SITE]
    rules += [(_BY_DIGEST.replace("*", "(.*)"), _FOREVER), *_TYPED.items()]
    return _json({"headers": [{"source": source, "headers": _pairs(fields)} for source, fields in rules]})


def _firebase() -> str:
    rules = [(path.replace("*", "**"), _FIELDS) for path in _SITE] + [(_BY_DIGEST.replace("*", "**"), _FOREVER)]
    rules += [("/.well-known/**/*.md", {"Content-Type": MARKDOWN}), *_TYPED.items()]
    headers = [{"source": source, "headers": _pairs(fields)} for source, fields in rules]
    # Its usual list would ignore every name that begins with a dot, and so the whole site.
    return _json({"hosting": {"public": ".", "ignore": ["firebase.json", ".skillwire-*"], "headers": headers}})


def _azure() -> str:
    # The first rule that fits is the only one that counts.
    typed = ((path, {**_FIELDS, **fields}) for path, fields in _TYPED.items())
    rules = [(_BY_DIGEST, {**_FIELDS, **_FOREVER}), *typed, *((path, _FIELDS) for path in _SITE)]
    types = {ending: MEDIA_TYPES[ending] for ending in (".md", ".gz", ".tgz")}  # those it does not know
    return _json({"routes": [{"route": path, "headers": fields} for path, fields in rules], "mimeTypes": types})


def _nginx() -> str:
    """A snippet for a server block. Spec: specs §1, never ``Content-Encoding`` on an artifact."""
    by_type: dict[str, list[str]] = {}
    for ending, media in MEDIA_TYPES.items():
        if ending.count(".") == 1:  # it looks at what follows the last dot
            by_type.setdefault(media.partition(";")[0], []).append(ending[1:])
    types = "".join(f"        {media} {' '.join(endings)};\n" for media, endings in by_type.items())
    fields = "".join(f'    add_header {name} "{value}" always;\n' for name, value in _FIELDS.items())
    common = (
        f"    types {{\n{types}    }}\n    default_type {BYTES};\n"
        f"    charset utf-8;\n    charset_types text/markdown text/plain;\n{fields}"
    )
    return (
        "# include this file in a server block whose root is this folder\n"
        r"location ~ ^/\.well-known/agent-skills/sha256/ {" + f"\n{common}"
        f'    add_header Cache-Control "{Cache.FOREVER.value}";\n    gzip off;\n}}\n'
        r"location ~ ^/(?:@[^/]+/)?\.well-known/(?:agent-skills|skills)/ {" + f"\n{common}"
        f'    add_header Cache-Control "{Cache.BRIEF.value}";\n    gzip_types {JSON};\n    gzip_vary on;\n}}\n'
        f"location = {WELL_KNOWN} {{\n    types {{ }}\n    default_type {JSON};\n{fields}"
        f'    add_header Cache-Control "{Cache.BRIEF.value}";\n    gzip_types {JSON};\n    gzip_vary on;\n}}\n'
    )


def _pairs(fields: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": name, "value": value} for name, value in fields.items()]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


#: Host → the path of its file, and what writes it.
HOSTS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "azure": ("staticwebapp.config.json", _azure),
    "cloudflare": ("_headers", _headers),
    "firebase": ("firebase.json", _firebase),
    "github": (".nojekyll", str),  # else its generator leaves out names that begin with a dot
    "netlify": ("_headers", _headers),
    "nginx": ("skillwire-nginx.conf", _nginx),
    "vercel": ("vercel.json", _vercel),
}
