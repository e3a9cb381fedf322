"""The corpus of archives through the APIs of other registries: refused with its code, or stored by the strict rules.

APM's receives archives. The others receive single files: those that a careless reader finds in an archive,
under the names that they have there, which the rules of paths have to refuse.
"""

import contextlib
import io
import zipfile
import zlib

import pytest
from tests.corpus.test_registry_archives import OF_RULES, UNWRAPPED
from tests.support.client_apis import host, publish_to_apm, publish_to_hub
from tests.support.hostile_archives import corpus_archives
from tests.support.registry_site import RegistrySite

from skillwire.model.package import PackageName
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.quotas import RateLimit
from skillwire.trust.paths import check_path

NAME = "corpus-skill"
#: What the files of an archive may have, and what one of them may have, so that a bomb is not unpacked here.
FILES, BYTES = 100, 256 * 1024
#: So many archives at least are stored.
BENIGN = 9


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


async def to_apm(site, content, version):
    return await publish_to_apm(site, content, by="ann", package=f"ann/{NAME}", version=version)


async def to_hub(site, content, version):
    return await publish_to_hub(site, members(content), by="ann", slug=NAME, version=version)


async def to_hosted_skills(site, content, _):
    return await host(site, members(content), by="ann", folder="")


@pytest.mark.parametrize("publish", [to_apm, to_hub, to_hosted_skills])
async def test_every_archive_is_refused_or_stored_by_the_rules(site, publish):
    wrong, stored = [], 0
    for number, archive in enumerate(corpus_archives()):
        before = await site.store.statistics(with_private=True)
        answer = await publish(site, archive.content, f"1.0.{number}")
        if answer.status in {200, 201}:
            stored += 1
            if publish is to_apm and archive.is_hostile and not archive.codes & UNWRAPPED:
                wrong.append(f"{archive.name}: stored")
        elif answer.status not in {400, 413, 422}:
            wrong.append(f"{archive.name}: {answer.status} {answer.body[:200]!r}")
        elif before != await site.store.statistics(with_private=True):
            wrong.append(f"{archive.name}: refused, and something is stored")
        elif publish is to_apm and answer.json()["code"] not in archive.codes | OF_RULES:
            wrong.append(f"{archive.name}: {answer.json()['code']}, expected one of {sorted(archive.codes)}")
    for version in await site.store.versions(PackageName("ann", NAME)):
        assert [check_path(file.path) for file in version.skill.files] == [file.path for file in version.skill.files]
    assert not wrong, "\n".join(wrong)
    assert stored >= BENIGN
