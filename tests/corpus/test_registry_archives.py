"""Every archive of the corpus through the upload APIs of a registry: refused for the right reason, or stored whole.

Whatever is sent, no answer is a failure of the server, nothing of a refused archive is stored, and nothing outside of
the state directory changes.
"""

import pytest
from tests.support.hostile_archives import corpus_archives
from tests.support.registry_site import RegistrySite

from skillwire.model.digest import Digest
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.quotas import RateLimit

#: What the rules of skills refuse in an archive that is sound.
OF_RULES = {"SKILL_INVALID", "NO_SKILL_MD", "IDENTIFIER_FOREIGN"}
#: An upload of no bytes, or of too many, is refused when it is begun.
OF_UPLOADS = {"UPLOAD_SIZE"}
#: One folder around the files is accepted in an upload.
UNWRAPPED = {"NO_SKILL_MD"}


async def by_one_request(site, archive, version):
    return await site.publish("ann", archive.content, query=f"version={version}")


async def by_dry_run(site, archive, version):
    return await site.publish("ann", archive.content, query=f"version={version}&dry_run=1")


async def by_upload(site, archive, version):
    asked = {"size": len(archive.content), "digest": Digest.of(archive.content)}
    begun = await site.call("POST", "/uploads", asked, by="ann")
    if begun.status != 201:
        return begun
    number = begun.json()["id"]
    await site.call("PUT", f"/uploads/{number}", by="ann", body=archive.content)
    answer = await site.publish("ann", b"", query=f"version={version}&upload={number}")
    if answer.status >= 400:  # it would be kept, and there are more archives than an account may have
        await site.call("DELETE", f"/uploads/{number}", by="ann")
    return answer


def tree(folder):
    return {path for path in folder.rglob("*") if "uploads" not in path.parts}


@pytest.mark.parametrize("publish", [by_one_request, by_dry_run, by_upload])
@pytest.mark.parametrize("kind", ["benign", "malicious"])
async def test_archive_is_stored_whole_or_refused(publish, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path, configuration=ServerConfiguration(principal_limit=RateLimit(10**6, 10**6)))
    await site.account("ann")
    before, wrong, stored = tree(tmp_path), {}, 0
    for number, archive in enumerate(corpus_archives()):
        if not archive.name.startswith(kind):
            continue
        answer = await publish(site, archive, f"1.0.{number}")
        error = answer.json().get("error", {})
        code, allowed = error.get("code", ""), archive.codes | OF_RULES | OF_UPLOADS
        was_refused = 400 <= answer.status < 500 and code in allowed and error["details"].get("fix")
        may_be_stored = not archive.is_hostile or archive.codes & UNWRAPPED
        stored += answer.status == 201
        if not was_refused and not (answer.status in {200, 201} and may_be_stored):
            wrong[archive.name] = (answer.status, code or error, sorted(archive.codes))
    assert wrong == {}
    statistics = await site.store.statistics(with_private=True)
    assert statistics["versions"] == stored
    if not stored:
        assert tree(tmp_path) - before <= {path for path in tree(tmp_path) if "state" in path.parts}
        assert not list(tmp_path.glob("blobs/*/*"))
    assert not [path for path in (tmp_path / "home/state/uploads").rglob("*") if path.is_file()]
