"""Proofs of namespaces: which domains are asked, what proves, and how many are asked at once."""

import asyncio
from typing import Any

import pytest

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError, TrustError, UsageError
from skillwire.server.namespace_proofs import NamespaceProofs
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse, drive_async


class Domain:
    """Answers for every domain; fills the driver and the look-up of records."""

    def __init__(self, records=(), status=200, body=b"", location=""):
        self.records, self.status, self.body = records, status, body
        self.fields = {"location": location} if location else {}
        self.asked = []
        self.running = self.most = 0

    async def run(self, flow):
        return await drive_async(flow, self.send)

    async def send(self, request):
        self.asked.append(request.url)
        return HttpResponse(request.url, self.status, self.fields, self.body)

    async def find_records(self, name):
        self.asked.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(9):
            await asyncio.sleep(0)
        self.running -= 1
        if isinstance(self.records, Exception):
            raise self.records
        return self.records

    def proofs(self):
        driver: Any = self
        return NamespaceProofs(driver, self.find_records)


@pytest.mark.parametrize(
    "domain",
    [
        *("", "localhost", "a.localhost", "printer.local", "10.0.0.1", "127.0.0.1:80", "[::1]", "0x7f.1", "a..example"),
        *("a@b.example", "a.example/x", "a.example?x", "-a.example", "a.example\n", "b\u00fccher.example"),
        "a." * 127 + "aa",
    ],
)
async def test_what_is_no_public_domain_is_not_asked(domain):
    site = Domain()
    for kind in ("dns", "file"):
        with pytest.raises(UsageError) as caught:
            await site.proofs().check(kind, domain, "acme")
        assert caught.value.code == "PROOF_DOMAIN"
    assert site.asked == []


@pytest.mark.parametrize(
    ("kind", "site", "is_proven"),
    [
        ("dns", Domain(["v=spf1", "skillwire-namespace=acme"]), True),
        ("dns", Domain(["skillwire-namespace=acme2"]), False),
        ("dns", Domain(FetchError("HOST_NOT_FOUND", "gone")), False),
        ("file", Domain(body=b"acme\n"), True),
        ("file", Domain(body=b"acme2"), False),
        ("file", Domain(body=b"acme", status=404), False),
        ("file", Domain(body=b"acme", status=302, location="http://127.0.0.1/"), False),
    ],
)
async def test_a_domain_proves_the_namespace_that_it_names(kind, site, is_proven):
    if is_proven:
        await site.proofs().check(kind, "acme.example", "acme")
    else:
        with pytest.raises(TrustError) as caught:
            await site.proofs().check(kind, "acme.example", "acme")
        assert caught.value.code == "PROOF_MISSING"
    place = {"dns": "_skillwire.acme.example", "file": "https://acme.example/.well-known/skillwire-namespace"}[kind]
    assert site.asked == [place]


async def test_a_caller_learns_no_address_that_a_name_has_in_our_network_alone():
    async with AsyncDriver(AddressPolicy(), resolve=lambda _: ["10.1.2.3"], proxy_for=lambda _: None) as driver:
        with pytest.raises(TrustError) as caught:
            await NamespaceProofs(driver, Domain().find_records).check("file", "db.acme.example", "acme")
    assert caught.value.message.endswith("cannot be read: it leads to no public address")


async def test_slow_domains_keep_few_threads():
    site = Domain(["skillwire-namespace=acme"])
    proofs = site.proofs()
    await asyncio.gather(*[proofs.check("dns", f"a{number}.example", "acme") for number in range(20)])
    assert (len(site.asked), site.most) == (20, 2)
