"""Publishing from the client: large archives go on where they broke off, and batches tell of each folder."""

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.publishing import write_skill
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire.client import registry as module
from skillwire.client.registry import RegistryFlows
from skillwire.errors import ConflictError, FetchError, SkillwireError, TrustError
from skillwire.wire.exchange import All, HttpRequest, HttpResponse, Sleep, drive_async

SITE = "http://127.0.0.1:8000"


class Link:
    """Sends the requests of flows to a registry over ASGI; those in ``breaks`` (by number) fail, half of them sent."""

    def __init__(self, site, breaks=()):
        self.site = site
        self.breaks = set(breaks)
        self.asked: list[HttpRequest] = []
        self.slept: list[float] = []

    async def run(self, flow):
        return await drive_async(flow, self.do)

    async def do(self, step):
        if isinstance(step, Sleep):
            return self.slept.append(step.seconds)
        if isinstance(step, All):
            return [await self.one(flow) for flow in step.flows]
        return await self.send(step) if isinstance(step, HttpRequest) else step.call()

    async def one(self, flow):
        try:
            return await self.run(flow)
        except SkillwireError as error:
            return error

    async def send(self, request):
        self.asked.append(request)
        body = request.body or b""
        is_broken = len(self.asked) in self.breaks
        path = request.url.removeprefix(SITE)
        sent = body[: len(body) // 2] if is_broken else body
        answer = await self.site.request(path, request.headers, method=request.method, body=sent)
        if is_broken:
            raise FetchError("CONNECTION_LOST", "the connection broke")
        return HttpResponse(request.url, answer.status, answer.fields, answer.body)


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "_PIECE_BYTES", 10_000)
    site = RegistrySite(tmp_path)
    await site.account("ann")
    return site


def flows(site):
    context: Any = SimpleNamespace(credential_for=lambda _: f"Bearer {site.tokens['ann']}")
    return RegistryFlows(SITE, context)


def large():
    return skill_archive("large", a_bin=random.Random(7).randbytes(35_000))  # noqa: S311  # nothing secret


class ForgetfulLink(Link):
    """Sends them to a registry that has forgotten the upload whenever it is begun again."""

    async def send(self, request):
        if request.method == "POST":
            for path in self.site.parts.uploads._folder.glob("*/*"):
                path.unlink()
        return await super().send(request)


async def test_a_registry_that_forgets_an_upload_again_and_again_is_given_up(site):
    link = ForgetfulLink(site, breaks=range(3, 300, 3))
    with pytest.raises(FetchError):
        await link.run(flows(site).publish("ann", large()))
    assert len(link.asked) < 30


async def test_a_large_archive_is_sent_in_pieces_and_goes_on_after_a_break(site):
    link = Link(site, breaks={3})
    made = await link.run(flows(site).publish("ann", large()))
    assert made["status"] == "created"
    offsets = [int(one.headers["Upload-Offset"]) for one in link.asked if one.method == "PATCH"]
    assert offsets == [0, 10_000, 15_000, 25_000, 35_000]
    assert link.slept == [2.0]


async def test_a_large_archive_whose_publication_was_not_answered_is_sent_again(site):
    link = Link(site, breaks={6})
    assert (await link.run(flows(site).publish("ann", large())))["status"] == "repeated"
    assert link.asked[5].url == link.asked[6].url == link.asked[-1].url


async def test_a_later_run_goes_on_where_an_earlier_one_ended(site):
    ended = Link(site, breaks=set(range(3, 99)))
    with pytest.raises(FetchError):
        await ended.run(flows(site).publish("ann", large()))
    link = Link(site)
    assert (await link.run(flows(site).publish("ann", large())))["status"] == "created"
    assert int(next(one for one in link.asked if one.method == "PATCH").headers["Upload-Offset"]) > 10_000


@pytest.mark.parametrize("answer", [{}, {"offset": -1, "id": "x"}, {"offset": 0, "id": "../.."}, {"offset": "1"}])
async def test_an_answer_that_is_no_upload_is_refused(site, answer):
    flow = flows(site)
    flow.ask = lambda *_, **__: _answer(answer)
    with pytest.raises(SkillwireError) as refused:
        await Link(site).run(flow.publish("ann", large()))
    assert refused.value.code == "REGISTRY_ANSWER"


def _answer(value):
    yield from ()
    return value


async def test_a_batch_tells_of_each_folder_in_order_and_only_the_last_waits(site, tmp_path):
    folders = [write_skill(tmp_path, "good"), write_skill(tmp_path, "bad", {"SKILL.md": "x"}), tmp_path / "none"]
    folders += [
        write_skill(tmp_path, "secret", {"key.txt": "AKIA" + "IOSFODNN7EXAMPL3\n"}),
        write_skill(tmp_path, "run"),
    ]
    (tmp_path / "none").mkdir()
    (tmp_path / "run/go.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run/go.sh").chmod(0o755)
    done: list[None] = []
    link = Link(site)
    wanted = {"namespace": "", "version": "", "dry_run": False, "allow_secrets": False}
    results = await link.run(flows(site).publish_folders(folders, lambda: done.append(None), **wanted))
    codes = [one.code if isinstance(one, SkillwireError) else one.status for one in results]
    assert codes == ["created", "SKILL_INVALID", "SKILL_NOT_FOUND", "SECRET_PUBLISHED", "created"]
    assert [(file.path, file.executable) for file in cast("Any", results[-1]).files] == [
        ("SKILL.md", False),
        ("go.sh", True),
    ]
    publications = [one for one in link.asked if one.method == "POST"]
    assert ["Prefer" in one.headers for one in publications] == [False, True]
    again = await link.run(flows(site).publish_folders(folders[:1], lambda: None, **wanted))
    assert again[0].status == "repeated"
    assert isinstance(results[3], TrustError)
    (folders[0] / "SKILL.md").write_text((folders[0] / "SKILL.md").read_text() + "More.\n")
    changed = await link.run(flows(site).publish_folders(folders[:1], lambda: None, **wanted))
    assert isinstance(changed[0], ConflictError)


async def batch(site, link, folders, **options):
    """Publish folders; return the codes of the results, the reported requirements, and the results."""
    told: list[str] = []
    found = flows(site)
    cast("Any", found._context).report = lambda finding: told.append(finding.message)
    results = await link.run(found.publish_folders(folders, lambda: None, **options))
    return [one.code if isinstance(one, SkillwireError) else one.status for one in results], told, results


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_batch_publishes_in_the_order_of_its_requirements(site, tmp_path, dry_run):
    needs = {"a": '"b", "gone"', "b": '"ann/c@^1.0"', "c": '"d@^2.0"', "d": '"e"', "e": '"d"'}
    folders = [write_skill(tmp_path, one, {"skill.toml": f"requires = [{text}]\n"}) for one, text in needs.items()]
    codes, told, results = await batch(site, Link(site), folders, dry_run=dry_run)
    assert codes == (["checked"] * 5 if dry_run else ["created"] * 5)
    assert [one.package for one in results] == [f"ann/{name}" for name in needs]
    assert sorted(told) == [f"no package of this registry meets {one}" for one in ("d@^2.0", "gone")]


class DeadLink(Link):
    """Sends the first ``number`` requests to a registry, which is gone then."""

    def __init__(self, site, number):
        super().__init__(site)
        self.number = number

    async def send(self, request):
        if len(self.asked) < self.number:
            return await super().send(request)
        self.asked.append(request)
        raise FetchError("CONNECT_FAILED", "cannot connect")


async def test_a_batch_ends_when_its_registry_is_gone(site, tmp_path):
    folders = [write_skill(tmp_path, f"s{number}") for number in range(5)]
    link = DeadLink(site, 2)
    codes, _, results = await batch(site, link, folders)
    assert codes == ["created", *["CONNECT_FAILED"] * 4]
    assert len({id(one) for one in results[1:]}) == 1
    assert (len(link.asked), link.slept) == (2 + 4, [2.0, 4.0, 8.0])


async def test_a_registry_that_never_answered_is_asked_once(site, tmp_path):
    link = DeadLink(site, 0)
    codes, _, _ = await batch(site, link, [write_skill(tmp_path, one) for one in ("a", "b")])
    assert (codes, len(link.asked), link.slept) == (["CONNECT_FAILED"] * 2, 1, [])


async def test_a_server_that_is_no_registry_is_named_as_one():
    context: Any = SimpleNamespace(credential_for=lambda _: None)
    body = b'{"error": {"code": "NOT_FOUND", "message": "nothing is published at this path"}}'
    (asking := RegistryFlows(SITE, context).ask("GET", "/whoami")).send(None)
    with pytest.raises(SkillwireError) as refused:
        asking.send(HttpResponse(f"{SITE}/api/registry/whoami", 404, {}, body))
    assert (refused.value.code, refused.value.message) == ("REGISTRY_ANSWER", f"{SITE} has no registry")
    assert "serve --registry" in refused.value.diagnostics().fix


async def test_a_lost_connection_is_asked_again(site, tmp_path):
    link = Link(site, breaks={1, 3})
    codes, _, _ = await batch(site, link, [write_skill(tmp_path, "a")])
    assert (codes, link.slept) == (["created"], [2.0, 2.0])


@pytest.mark.parametrize(("scopes", "namespace"), [(("namespace:team",), "team"), ((), "ann")])
async def test_the_only_namespace_of_a_token_is_the_default(site, tmp_path, scopes, namespace):
    await site.call("POST", "/namespaces", {"name": "team"}, by="ann")
    site.tokens["ann"] = await site.token("ann", "publish", *scopes)
    _, _, results = await batch(site, Link(site), [write_skill(tmp_path, "a")])
    assert [one.package for one in results] == [f"{namespace}/a"]


async def test_the_default_namespace_follows_a_rename(site, tmp_path):
    await site.call("POST", "/namespaces", {"name": "team"}, by="ann")
    by_ann, site.tokens["ann"] = site.tokens["ann"], await site.token("ann", "publish", "namespace:team")
    await site.call("POST", "/namespaces/team/rename", {"to": "crew"}, by=by_ann)
    _, _, results = await batch(site, Link(site), [write_skill(tmp_path, "a")])
    assert [one.package for one in results] == ["crew/a"]


@pytest.mark.parametrize(
    ("status", "seconds", "waits"), [(429, "7", [7.0, 7.0]), (503, "0", [1.0, 1.0]), (429, "61", [])]
)
async def test_a_busy_registry_is_asked_again_when_it_says(site, status, seconds, waits):
    link, busy = Link(site), iter(range(2))
    send = link.send

    async def refuse(request):
        if next(busy, None) is None:
            return await send(request)
        return HttpResponse(request.url, status, {"retry-after": seconds}, b"{}")

    link.send = refuse  # type: ignore[method-assign]  # a registry that is busy at first
    publishing = link.run(flows(site).publish("ann", skill_archive()))
    if waits:
        assert (await publishing)["status"] == "created"
    else:
        with pytest.raises(FetchError):
            await publishing
    assert link.slept == waits


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("number", "codes"), [("", ["VERSION_FORM", "LINK_BROKEN"]), ("2.0.0", ["VERSION_DIFFERS", "LINK_BROKEN"])]
)
async def test_each_warning_of_a_folder_is_reported_once(site, tmp_path, number, codes, dry_run):
    folder = write_skill(tmp_path, "notes", version="notaversion", body="See [this](none.md).\n")
    link, told = Link(site), []
    context = flows(site)._context
    context.report = lambda finding: told.append((finding.code, len(link.asked)))
    await link.run(
        RegistryFlows(SITE, context).publish_folder(folder, version=number, dry_run=dry_run, namespace="ann")
    )
    assert [code for code, _ in told] == codes
    assert told[-1][1] == (0 if dry_run else 1)


async def test_a_refused_archive_tells_its_sender_what_to_pack_and_names_no_empty_place(site):
    with pytest.raises(SkillwireError) as refused:
        await Link(site).run(flows(site).publish("ann", b"junk"))
    assert refused.value.code == "ARCHIVE_MALFORMED"
    assert "skillwire publish" in str(refused.value.fix)
    message = "ARCHIVE_MALFORMED: the file is neither a .tar.gz nor a .zip archive"
    assert refused.value.details["findings"] == [message]
