"""A server that certifies others: it renews what is good, refuses the rest, and gives out the signed list."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.support.publishing import Asgi

from skillwire import limits
from skillwire.adapters.files.authority_folder import AuthorityFolder
from skillwire.errors import NotFoundError
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.renewal import (
    CERTIFICATES_PATH,
    REVOCATIONS_PATH,
    read_issued,
    write_renewal,
)
from skillwire.server import app
from skillwire.server.lan import certificates
from skillwire.trust.certificate_requests import Names
from skillwire.trust.ecdsa import EcdsaIdentity, new_key


@pytest.fixture
def authority(tmp_path):
    return AuthorityFolder.create(tmp_path / "ca", "Example", time.time())


@pytest.fixture
async def site(skills, tmp_path, tokens, authority):  # noqa: ARG001  # the state folder first
    application = app([skills], blobs=tmp_path / "blobs", lan=LanSettings(authority=str(authority.folder)))
    yield Asgi(application)
    await application.shutdown()


async def test_a_certificate_is_renewed(site, authority):
    key, names, now = new_key(), Names(("agent-001",), (), ()), time.time()
    short = 200 / 86_400  # it begins five minutes ago, as clocks differ, so that more than half of it is over
    identity = EcdsaIdentity(key, authority.issue(names, key.public_key(), now, days=short))
    question = write_renewal(identity, key, names, now)
    answer = await site.request(CERTIFICATES_PATH, method="POST", body=question)
    assert answer.status == 200
    renewed = read_issued(answer.body)
    assert renewed != identity.certificate
    assert len(authority.book().rows[1:]) == 2


async def test_who_has_no_good_certificate_gets_none(site, authority):
    key, names, now = new_key(), Names(("agent-001",), (), ()), time.time()
    identity = EcdsaIdentity(key, authority.issue(names, key.public_key(), now))
    authority.revoke("agent-001", now)
    answer = await site.request(CERTIFICATES_PATH, method="POST", body=write_renewal(identity, key, names, now))
    assert answer.status == 403
    assert len(authority.book().rows[1:]) == 1
    for body in (b"", b"{}", b"\xff", b"[1]"):
        assert (await site.request(CERTIFICATES_PATH, method="POST", body=body)).status == 400


async def test_questions_are_bounded(site, monkeypatch):
    answer = await site.request(CERTIFICATES_PATH, method="POST", body=b"a" * (limits.LAN_RENEWAL_BYTES + 1))
    assert (answer.status, answer.json()["error"]["code"]) == (413, "LIMIT_SIZE")
    monkeypatch.setattr(certificates, "_WAITING", 0)
    assert (await site.request(CERTIFICATES_PATH, method="POST", body=b"{}")).status == 503


async def test_many_are_answered_one_after_the_other(site):
    asked = [site.request(CERTIFICATES_PATH, method="POST", body=b"{}") for _ in range(8)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {400}


async def test_the_list_is_everybodys(site, authority):
    answer = await site.get(REVOCATIONS_PATH)
    assert (answer.status, answer.body) == (200, authority.revocations_file.read_bytes())
    assert answer.body.startswith(b"-----BEGIN X509 CRL-----")
    assert (await site.request(REVOCATIONS_PATH, method="HEAD")).body == b""
    assert (await site.request(REVOCATIONS_PATH, method="POST")).status == 405
    assert (await site.get(CERTIFICATES_PATH)).status == 405
    assert (await site.request(CERTIFICATES_PATH, method="OPTIONS")).status == 204


async def test_a_server_without_an_authority_has_no_such_doors(serve):
    site = await serve()
    for path in (CERTIFICATES_PATH, REVOCATIONS_PATH):
        assert (await site.get(path)).status == 404


def test_an_authority_that_is_not_there_is_said_at_once(skills, tmp_path, tokens):  # noqa: ARG001  # as above
    with pytest.raises(NotFoundError, match="CA_FOLDER"):
        app([skills], blobs=tmp_path / "blobs", lan=LanSettings(authority=str(tmp_path / "none")))
