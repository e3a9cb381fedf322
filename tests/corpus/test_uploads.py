"""The corpus of archives through each API that receives skills: refused with its code, or stored by the strict rules.

Two of the APIs receive archives. The others receive single files: those that a careless reader finds in an archive,
under the names that they have there, which the rules of paths have to refuse.
"""

import contextlib
import io
import json
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.corpus.test_archives import ARCHIVES, HERE, OURS
from tests.support.client_apis import host, publish_to_apm, publish_to_hub
from tests.support.registry_site import RegistrySite

from skillwire.model.package import PackageName
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.server.configuration import ServerConfiguration
from skillwire.trust.paths import check_path

NAME = "corpus-skill"
#: What the files of an archive may have, and what one of them may have, so that a bomb is not unpacked here.
FILES, BYTES = 100, 256 * 1024


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path, configuration=ServerConfiguration(principal_limit=RateLimit(1_000_000, 1_000_000)))
    await site.account("ann")
    return site


def members(content):
    """Return path → bytes of what a careless reader finds in an archive, as far as that is bounded."""
    found = {}
    with contextlib.suppress(Exception):  # it raises whatever it meets in a hostile archive
        if content.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for info in archive.infolist()[:FILES]:
                    if not info.is_dir() and info.file_size <= BYTES:
                        found[info.filename] = archive.read(info)
        else:
            unpacked, place = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, BYTES * 8), 0
            while len(found) < FILES and (head := unpacked[place : place + 512]).strip(b"\0"):
                size = int(head[124:136].strip(b" \0"), 8)
                if head[156:157] in {b"0", b"\0"}:
                    found[head[:100].rstrip(b"\0").decode()] = unpacked[place + 512 :][:size]
                place += 512 + size + -size % 512
    return {path: data for path, data in found.items() if path.isprintable()}


async def to_registry(site, content, version):
    return await site.publish("ann", content, query=f"version={version}")


async def to_apm(site, content, version):
    return await publish_to_apm(site, content, by="ann", package=f"ann/{NAME}", version=version)


async def to_hub(site, content, version):
    return await publish_to_hub(site, members(content), by="ann", slug=NAME, version=version)


async def to_hosted_skills(site, content, _):
    return await host(site, members(content), by="ann", folder="")


def code_of(answer):
    """Return the code of a refusal; the text of ClawHub's has none."""
    document = {} if answer.fields["content-type"].startswith("text/") else json.loads(answer.body)
    return (document.get("error") or document).get("code")


@pytest.mark.parametrize("publish", [to_registry, to_apm, to_hub, to_hosted_skills])
async def test_every_archive_is_refused_or_stored_by_the_rules(site, publish):
    wrong, stored = [], 0
    for number, archive in enumerate(ARCHIVES):
        content, version = Path(HERE / "archives" / archive["file"]).read_bytes(), f"1.0.{number}"
        before = await site.store.statistics(with_private=True)
        answer = await publish(site, content, version)
        after = await site.store.statistics(with_private=True)
        if answer.status in {200, 201}:
            stored += 1
            if publish in {to_registry, to_apm} and archive["expect"] == "reject":
                wrong.append(f"{archive['file']}: accepted")
        elif answer.status not in {400, 413, 422}:
            wrong.append(f"{archive['file']}: {answer.status} {answer.body[:200]!r}")
        elif after != before:
            wrong.append(f"{archive['file']}: refused, and something is stored")
        elif publish in {to_registry, to_apm} and archive["expect"] == "reject":
            codes = {OURS[code] for code in archive["codes"] if code in OURS}
            if "wrapped" in archive["file"]:  # a folder is unpacked, and has to be named as the skill
                codes.add("SKILL_INVALID")
            if code_of(answer) not in codes:
                wrong.append(f"{archive['file']}: {code_of(answer)}, expected {codes}")
    for version in await site.store.versions(PackageName("ann", NAME)):
        for file in version.skill.files:
            assert check_path(file.path) == file.path
    assert not wrong, "\n".join(wrong)
    assert stored >= len([archive for archive in ARCHIVES if archive["expect"] == "accept"]) // 2
