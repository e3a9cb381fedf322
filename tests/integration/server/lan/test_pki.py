"""The certificates of a SkillCenter: chain, revocations, first certificates for those who may have them. SDP §10.2."""

import asyncio
import contextlib
import json
import time
from types import SimpleNamespace
from typing import cast

import pytest
from tests.support.command import run_command
from tests.support.publishing import Asgi
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan import probes
from skillwire.cli import key
from skillwire.client.registry import RegistryFlows
from skillwire.errors import NotFoundError, TrustError, ValidationError
from skillwire.model.package import Change, Proof
from skillwire.protocols.skill_discovery.credentials import read_issued
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.resolver.context import ResolveContext
from skillwire.server import create_app
from skillwire.trust.certificates import RequestedNames, belongs, encode_request, read_key
from skillwire.trust.ecdsa import new_key
from skillwire.wire.exchange import HttpResponse

PEM = b"-----BEGIN CERTIFICATE-----"


@pytest.fixture
def authority(tmp_path):
    return AuthorityFolder.create(tmp_path / "ca", "Example", time.time())


@pytest.fixture
async def site(tmp_path, authority):
    made = RegistrySite(tmp_path, lan=LanSettings(authority=str(authority.folder)))
    await made.account("ann")
    await made.account("bob")
    await made.account("root", is_operator=True)
    made.tokens["reader"] = await made.token("ann", "read")
    made.tokens["elsewhere"] = await made.token("ann", "publish", "namespace:other")
    await made.publish("ann", skill_archive("notes", skill_toml='skill_id = "ann.notes"\n'))
    await made.publish("ann", skill_archive("shared"))
    await made.publish("bob", skill_archive("shared"))
    made.look()
    yield made
    await made.application.shutdown()


async def enroll(site, names, *, by=None, key=None, body=None):
    request = encode_request(names, key or new_key()).decode() if body is None else ""
    body = json.dumps({"request": request}).encode() if body is None else body
    fields = {"Authorization": f"Bearer {site.tokens[by]}"} if by else {}
    return await site.request("/api/pki/enroll", fields, method="POST", body=body)


@pytest.mark.spec("SDP-authority-enrol")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("ann", RequestedNames(("ann",), (), ())),
        ("ann", RequestedNames((), ("ann.notes",), ())),
        ("ann", RequestedNames(("ann",), ("ann.notes",), ())),
        ("root", RequestedNames(("agent-001",), ("anything",), ("192.0.2.1",))),
    ],
)
async def test_an_account_gets_a_certificate_for_what_is_its_own(site, authority, by, names):
    answer = await enroll(site, names, by=by)
    assert answer.status == 200, answer.body
    certificate = read_issued(answer.body)
    verified = authority.judge(certificate, time.time())
    assert (verified.agents, verified.skills, verified.hosts) == tuple(map(frozenset, names))
    assert read_key(certificate) is not None
    entry = (await site.store.audit(0, 100))[-1].change
    assert (entry.account, entry.action) == (by, "certificate.issue")
    assert entry.details == {kind: list(known) for kind, known in names._asdict().items() if known}


@pytest.mark.parametrize(
    ("by", "names", "status", "code"),
    [
        (None, RequestedNames(("ann",), (), ()), 401, "AUTH_REQUIRED"),
        ("reader", RequestedNames(("ann",), (), ()), 403, "CERTIFICATE_REFUSED"),
        ("elsewhere", RequestedNames(("ann",), (), ()), 403, "CERTIFICATE_REFUSED"),
        ("elsewhere", RequestedNames((), ("ann.notes",), ()), 403, "CERTIFICATE_REFUSED"),
        ("ann", RequestedNames(("bob",), (), ()), 403, "CERTIFICATE_REFUSED"),
        ("ann", RequestedNames(("ann", "bob"), (), ()), 403, "CERTIFICATE_REFUSED"),
        ("bob", RequestedNames((), ("ann.notes",), ()), 403, "CERTIFICATE_REFUSED"),
        ("ann", RequestedNames((), ("notes",), ()), 403, "CERTIFICATE_REFUSED"),  # it has another ID
        ("bob", RequestedNames((), ("shared",), ()), 403, "CERTIFICATE_REFUSED"),  # ann's skill had it first
        ("ann", RequestedNames(("ann",), (), ("192.0.2.1",)), 403, "CERTIFICATE_REFUSED"),
    ],
)
async def test_refused_names(site, by, names, status, code):
    answer = await enroll(site, names, by=by)
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[1]", 400),
        (b'{"request": "x"}', 400),
        (b'{"request": "x", "more": 1}', 400),
        (b"a" * 100_000, 413),
    ],
)
async def test_refused_bodies(site, body, status):
    assert (await enroll(site, None, by="root", body=body)).status == status


async def test_a_revoked_key_and_too_many_requests_are_refused(site, authority):
    key, names = new_key(), RequestedNames(("agent-001",), (), ())
    assert (await enroll(site, names, by="root", key=key)).status == 200
    authority.revoke("agent-001", time.time())
    assert (await enroll(site, names, by="root", key=key)).status == 403
    statuses = [(await enroll(site, names, by="root")).status for _ in range(12)]
    assert (statuses[0], statuses[-1]) == (200, 429)


@pytest.mark.spec("SDP-authority-enrol")
async def test_a_renewed_and_a_revoked_center_are_followed(site, authority, tmp_path):
    chain = await site.get("/api/pki/chain")
    assert (chain.status, chain.body.count(PEM)) == (200, 2)
    (tmp_path / "root.pem").write_bytes(PEM + chain.body.rpartition(PEM)[2])
    (tmp_path / "center.pem").write_bytes(chain.body.rpartition(PEM)[0])
    old = read_issued((await enroll(site, RequestedNames(("ann",), (), ()), by="ann")).body)
    first = authority.book().rows[0].serial
    authority.renew(time.time())
    (tmp_path / "revocations.pem").write_bytes((await site.get("/api/pki/revocations")).body)
    new = read_issued((await enroll(site, RequestedNames(("bob",), (), ()), by="bob")).body)
    trust = load_trust(
        LanSettings(
            roots=(str(tmp_path / "root.pem"),),
            intermediates=(str(tmp_path / "center.pem"),),
            revocations=(str(tmp_path / "revocations.pem"),),
        )
    )

    async def certified():
        """Take the published list as an agent does; return which of the two certificates leads to the root."""
        assert trust.revocations is not None
        trust.revocations.take((await site.get("/api/pki/revocations")).body, time.time())
        judged = [trust.authority.judge(name, one, time.time()) for name, one in (("ann", old), ("bob", new))]
        return [one is not None and one.standing is Standing.CERTIFIED for one in judged]

    assert (await site.get("/api/pki/chain")).body.count(PEM) == 3
    assert await certified() == [True, True]
    authority.revoke(first, time.time())
    assert (await site.get("/api/pki/chain")).body.count(PEM) == 2
    assert await certified() == [False, True]


@pytest.mark.parametrize("case", [(True, True, 200), (True, False, 404), (False, False, 200)])
async def test_an_authority_of_the_settings_issues_without_the_local_network(tmp_path, authority, monkeypatch, case):
    of_user, registry, status = case
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "own"))
    configuration = tmp_path / "server.toml"
    settings = tmp_path / "own/config/skillwire.toml" if of_user else configuration
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[discovery.trust]\nauthority = "{authority.folder}"\n')
    made = Asgi(create_app((), blobs=tmp_path, registry=registry, configuration=None if of_user else configuration))
    assert (await made.get("/api/pki/chain")).status == status
    await made.application.shutdown()


async def test_without_an_authority_nothing_is_there(tmp_path):
    made = RegistrySite(tmp_path)
    for path in ("chain", "revocations"):
        assert (await made.get(f"/api/pki/{path}")).status == 404


async def run_enroll(site, monkeypatch, *options):
    """Run the command as ann, against a site in this process."""
    loop = asyncio.get_running_loop()

    def answered(asked):
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    class Remote(RegistryFlows):
        def __init__(self):
            super().__init__("http://registry.example", cast("ResolveContext", None))  # nothing is sent by it

        def registry(self, _):
            return self

        def request(self, method, path, document=None):
            path = path if path.startswith("/api/") else f"/api/registry{path}"
            answer = answered(site.ask(method, path, document, by="ann"))
            if answer.status >= 300:
                raise self._refusal(HttpResponse(f"{self.url}{path}", answer.status, {}, answer.body))
            return answer.json()

    async def ask(request):
        answer = await asyncio.to_thread(answered, site.get(request.url.removeprefix("http://registry.example")))
        return HttpResponse(request.url, answer.status, {}, answer.body)

    monkeypatch.setattr(key, "open_client", lambda *_: contextlib.nullcontext(Remote()))
    monkeypatch.setattr(probes, "send_to_known_address", ask)
    arguments = ("key", "enroll", "--registry", "http://registry.example", *options)
    return await asyncio.to_thread(run_command, *arguments)


async def test_a_command_enrolls_with_the_token_of_an_account_and_gives_what_the_trust_side_needs(site, monkeypatch):
    ran = await run_enroll(site, monkeypatch, "--skill", "ann.notes", "--json")
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out)
    certificate, trust = shown["certificate"], shown["trust"]
    assert (certificate["agents"], certificate["skills"], certificate["by"]) == (["ann"], ["ann.notes"], "authority")
    assert trust["renewFrom"] == "http://registry.example"
    loaded = load_trust(LanSettings(roots=tuple(trust["roots"]), intermediates=tuple(trust["intermediates"])))
    judged = loaded.authority.judge("ann", loaded.identity.certificate, time.time())
    assert judged is not None
    assert judged.standing is Standing.CERTIFIED
    ran = await run_enroll(site, monkeypatch)
    assert f'  roots = ["{trust["roots"][0]}"]\n' in ran.out
    assert "a server of this name loads it within 5 s" in ran.err


@pytest.mark.parametrize("option", [("--agent", "bob"), ("--skill", "bob.notes")])
async def test_a_command_that_names_what_is_anothers_is_told_what_to_do(site, monkeypatch, option):
    ran = await run_enroll(site, monkeypatch, *option)
    assert ran.code == TrustError.exit_code
    assert f"only an operator gets a certificate for {option[1]}" in ran.err
    assert "fix: Name your account and skills of your namespaces alone" in ran.err


async def test_the_second_agent_of_a_machine_is_enrolled_and_the_first_is_not_renamed(site, monkeypatch):
    site.tokens["ann"] = site.tokens["root"]
    assert (await run_enroll(site, monkeypatch, "--agent", "hosta")).code == 0
    first = LanKeys().certificate()
    ran = await run_enroll(site, monkeypatch, "--agent", "hosta-2")
    assert ran.code == ValidationError.exit_code
    assert "names hosta-2, but the agent with this key is hosta" in " ".join(ran.err.split())
    second = LanKeys(LanKeys().folder / "agents" / "hosta-2")  # as a second server of this machine makes it
    second.keep_id("hosta-2")
    second.key()
    ran = await run_enroll(site, monkeypatch, "--agent", "hosta-2", "--json")
    assert json.loads(ran.out)["trust"]["roots"] == [str(LanKeys().folder / "authority-roots.pem")]
    certificate = second.certificate()
    assert certificate is not None
    assert belongs(certificate, second.key())
    assert (LanKeys().known_id(), LanKeys().certificate()) == ("hosta", first)


async def test_a_command_with_a_token_that_only_reads_is_told_the_scope(site, monkeypatch):
    site.tokens["ann"] = await site.token("ann", "read")
    ran = await run_enroll(site, monkeypatch)
    assert "only an operator, or ann by a token with the scope publish, gets a certificate for ann" in " ".join(
        ran.err.split()
    )


async def test_a_registry_without_an_authority_is_said_to_have_none(tmp_path, monkeypatch):
    made = RegistrySite(tmp_path)
    await made.account("ann")
    ran = await run_enroll(made, monkeypatch)
    await made.application.shutdown()
    assert ran.code == NotFoundError.exit_code
    assert "error[CA_FOLDER]: http://registry.example has no authority" in ran.err
    assert "serve with --lan" in ran.err


@pytest.mark.parametrize("is_proven", [False, True])
async def test_an_account_that_chose_its_name_needs_a_proven_namespace(site, is_proven, monkeypatch):
    provider = SimpleNamespace(makes_accounts=True)
    monkeypatch.setattr(site.application.services.authentication, "sign_in", provider)
    if is_proven:
        namespace = await site.store.namespace("ann")
        proof = Proof("dns", "example.com", 1.0)
        await site.store.update_namespace(namespace._replace(proof=proof), Change(1.0, "ann", "namespace.prove", "ann"))
    assert (await enroll(site, RequestedNames(("ann",), (), ()), by="ann")).status == (200 if is_proven else 403)
    monkeypatch.undo()
