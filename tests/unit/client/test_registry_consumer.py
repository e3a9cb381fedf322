"""A client and a registry: versions, ranges, states, and what skills require."""

import json

import pytest
from tests.support.publishing import write_skill
from tests.support.registry_site import AsgiDriver, RegistrySite, skill_archive

from skillwire import AsyncClient
from skillwire.errors import ConflictError, NotFoundError, SkillwireError, TrustError, UsageError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import SCHEMA_URI
from skillwire.resolver.settings import Settings
from skillwire.wire.exchange import HttpResponse

ORIGIN = "https://registry.example"
PLACE = "registry.example/@acme"


class Consumer:
    """A project beside a registry, whose account acme publishes."""

    def __init__(self, site, project):
        self.site, self.project = site, project
        self.findings = []
        self.client = self.open()

    def open(self, **settings):
        made = Settings(**{"trusted_origins": ("registry.example",), **settings})
        client = AsyncClient(self.project, settings=made, report=self.findings.append)
        client.driver = self.driver = AsgiDriver(self.site, ORIGIN)
        return client

    async def publish(self, name, *versions, requires=(), **fields):
        for version in versions:
            toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"requires": requires, **fields}.items())
            archive = skill_archive(name, version, f"This is {version}.\n", skill_toml=toml)
            answer = await self.site.publish("acme", archive)
            assert answer.status == 201, answer.body
        self.site.look()

    async def state(self, path, status, **more):
        more = {"reason": "because"} | more
        answer = await self.site.call("PATCH", f"/packages/acme/{path}", {"status": status, **more}, by="root")
        assert answer.status == 200, answer.body
        self.site.look()

    async def versions(self):
        return {one.name: one.version for one in await self.client.installed()}

    def codes(self):
        return [finding.code for finding in self.findings]


@pytest.fixture
async def consumer(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    await site.account("acme")
    await site.account("root", is_operator=True)
    (tmp_path / "project").mkdir()
    made = Consumer(site, tmp_path / "project")
    await made.publish("notes", "1.0.0", "1.2.0", "1.3.0", "2.0.0-rc.1")
    yield made
    await site.parts.downloads.close()


async def test_a_package_is_found_by_the_tags_of_its_manifest(consumer):
    await consumer.publish("vat", "1.0.0", tags=["money"])
    assert [skill.ref.name for skill, _ in await consumer.client.find("money", [ORIGIN])] == ["vat"]
    for asked in ("q=money", "tag=money"):
        found = (await consumer.site.get(f"/api/search?{asked}&facets=1")).json()
        assert [hit["name"] for hit in found["skills"]] == ["vat"]
        assert found["facets"]["tag"] == [{"value": "money", "skills": 1}]


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        (f"{PLACE}/notes", "1.3.0"),
        ("registry.example/acme/notes", "1.3.0"),
        ("registry.example/notes", "1.3.0"),
        (f"{PLACE}/notes@1.2.0", "1.2.0"),
        ("registry.example/notes@1.0.0", "1.0.0"),
        (f"{PLACE}/notes@~1.2", "1.2.0"),
        (f"{PLACE}/notes@<1.3", "1.2.0"),
        (f"{PLACE}/notes@>=2.0.0-a", "2.0.0-rc.1"),
        ("notes@^1.0", "1.3.0"),
    ],
)
async def test_a_version_is_chosen(consumer, reference, version):
    consumer.client = consumer.open(sources=(PLACE,))
    await consumer.client.add(reference)
    assert await consumer.versions() == {"notes": version}
    assert not (await consumer.client.verify()).deviations


async def test_a_digest_names_a_version(consumer):
    shown = await consumer.client.show(f"{PLACE}/notes@1.0.0")
    await consumer.client.add(f"{PLACE}/notes@{shown.digest}")
    assert await consumer.versions() == {"notes": "1.0.0"}


@pytest.mark.parametrize(
    ("reference", "kind", "code"),
    [
        (f"{PLACE}/notes@9", NotFoundError, "VERSION_NOT_FOUND"),
        (f"{PLACE}/notes@sha256:{'0' * 64}", NotFoundError, "VERSION_NOT_FOUND"),
        (f"{PLACE}/other@1", NotFoundError, "SKILL_NOT_FOUND"),
        (f"{PLACE}/notes@latest", UsageError, "VERSION_RANGE"),
        ("https://registry.example@1.0", UsageError, "REFERENCE"),
    ],
)
async def test_refused_versions(consumer, reference, kind, code):
    with pytest.raises(kind) as refused:
        await consumer.client.add(reference)
    assert refused.value.code == code
    assert await consumer.versions() == {}


class TestTo:
    @pytest.mark.parametrize("reference", [f"{PLACE}/notes", "registry.example/notes"])
    async def test_a_version_is_installed_rolled_back_and_kept(self, consumer, reference):
        client = consumer.client
        await client.add(reference)
        steps = [("1.0.0", "1.0.0"), ("~1.2", "1.2.0"), (">=2.0.0-a", "2.0.0-rc.1"), ("1.0.0", "1.0.0"), ("*", "1.3.0")]
        for to, version in steps:
            rows = await client.compare("notes", to=to)
            await client.apply(await client.plan_update(rows), consent=True)
            (locked,) = await client.installed()
            assert (locked.version, locked.wanted) == (version, to)
            await client.update()
            assert await consumer.versions() == {"notes": version}
        digest = (await client.show(f"{PLACE}/notes@1.2.0")).digest
        await client.apply(await client.plan_update(await client.compare("notes", to=digest)), consent=True)
        assert await consumer.versions() == {"notes": "1.2.0"}

    async def test_the_present_version_becomes_the_wanted_one(self, consumer):
        await consumer.client.add(f"{PLACE}/notes")
        rows = await consumer.client.compare("notes", to="1.3.0")
        assert [row.state for row in rows] == ["current"]
        await consumer.client.apply(await consumer.client.plan_update(rows), consent=True)
        await consumer.publish("notes", "1.4.0")
        assert await consumer.client.outdated() == []

    @pytest.mark.parametrize(
        ("to", "code"), [("9.0.0", "VERSION_NOT_FOUND"), ("x", "VERSION_RANGE"), ("1.2.0", "YANKED")]
    )
    async def test_a_version_that_cannot_be_had_changes_nothing(self, consumer, to, code):
        await consumer.client.add(f"{PLACE}/notes")
        await consumer.state("notes/1.2.0", "yanked")
        with pytest.raises(SkillwireError) as refused:
            await consumer.client.compare("notes", to=to)
        assert refused.value.code == code
        assert await consumer.versions() == {"notes": "1.3.0"}

    async def test_the_projects_file_has_the_range_and_the_lock_the_version(self, consumer):
        consumer.client = consumer.open(skills=(f"{PLACE}/notes@~1.2",))
        await consumer.client.apply(await consumer.client.plan(), consent=True)
        (locked,) = await consumer.client.installed()
        assert (locked.version, locked.wanted, str(locked.digest)[:7]) == ("1.2.0", "~1.2", "sha256:")


class TestStates:
    async def test_a_yanked_version_is_refused_unless_a_lock_or_a_digest_leads_to_it(self, consumer):
        await consumer.client.add(f"{PLACE}/notes@1.2.0")
        digest = (await consumer.client.installed())[0].digest
        await consumer.state("notes/1.2.0", "yanked", reason="loses data")
        await consumer.client.add(f"{PLACE}/notes@1.2.0")  # it is locked
        await consumer.client.remove("notes")
        with pytest.raises(TrustError, match="loses data") as refused:
            await consumer.client.add(f"{PLACE}/notes@1.2.0")
        assert refused.value.code == "YANKED"
        await consumer.client.add(f"{PLACE}/notes@{digest}")
        assert await consumer.versions() == {"notes": "1.2.0"}
        await consumer.client.remove("notes")
        with pytest.raises(TrustError):  # every version of the range
            await consumer.client.add(f"{PLACE}/notes@~1.2")

    async def test_a_lock_installs_a_yanked_version_again(self, consumer):
        await consumer.client.add(f"{PLACE}/notes@1.2.0")
        lock = (consumer.project / "skills.lock").read_bytes()
        await consumer.client.remove("notes")
        (consumer.project / "skills.lock").write_bytes(lock)
        await consumer.state("notes/1.2.0", "yanked")
        plan = await consumer.client.plan_locked()
        await consumer.client.apply(plan, consent=True)
        assert not (await consumer.client.verify()).deviations

    @pytest.mark.parametrize("reference", [f"{PLACE}/notes@1.2.0", "registry.example/notes"])
    async def test_a_lock_does_not_install_a_quarantined_version(self, consumer, reference):
        await consumer.client.add(reference)
        version = (await consumer.versions())["notes"]
        for is_removed in (False, True):
            if is_removed:
                lock = (consumer.project / "skills.lock").read_bytes()
                await consumer.client.remove("notes")
                (consumer.project / "skills.lock").write_bytes(lock)
            for status in ("yanked", "quarantined", "active"):
                await consumer.state(f"notes/{version}", status, reason="steals keys")
                consumer.findings.clear()
                consumer.driver.paths.clear()
                plan = await consumer.client.plan_locked()
                if status == "quarantined":
                    with pytest.raises(TrustError, match="steals keys") as refused:
                        await consumer.client.apply(plan, consent=True)
                    assert refused.value.code == "QUARANTINED"
                    continue
                await consumer.client.apply(plan, consent=True)
                warned = [one.message for one in consumer.findings if one.code == "YANKED"]
                assert warned == [f"notes {version} is yanked: steals keys"][: status == "yanked"]
                assert sum(path.endswith("versions.json") for path in consumer.driver.paths) == 1

    async def test_a_machine_without_a_cache_gets_the_reason_of_a_quarantine(self, consumer):
        plan = await consumer.client.plan(f"{PLACE}/notes")
        await consumer.state("notes", "quarantined", reason="steals keys")
        with pytest.raises(TrustError, match="steals keys") as refused:
            await consumer.client.apply(plan)
        assert refused.value.code == "QUARANTINED"
        assert "--token" not in refused.value.diagnostics().fix

    @pytest.mark.parametrize("reference", [f"{PLACE}/notes", "registry.example/notes", f"{PLACE}/notes@^1.2"])
    @pytest.mark.parametrize("status", ["archived", "deprecated"])
    async def test_one_without_a_future_is_reported_with_its_successor(self, consumer, reference, status):
        await consumer.publish("diary", "1.0.0")
        await consumer.state("notes", status, successor="acme/diary")
        await consumer.client.add(reference)
        [finding] = [one for one in consumer.findings if one.code == status.upper()]
        assert finding.fix == "Use acme/diary instead."
        assert finding.message == f"notes 1.3.0 is {status}: because"
        assert (await consumer.client.show(reference)).ref.release[:3] == (status, "because", "acme/diary")
        consumer.findings.clear()
        assert await consumer.client.outdated() == []
        assert consumer.codes() == [status.upper()]

    async def test_an_index_has_the_states_so_that_no_list_of_versions_is_asked_for(self, consumer):
        await consumer.publish("diary", "1.0.0")
        await consumer.state("notes/1.3.0", "deprecated", successor="acme/diary")
        await consumer.client.add("registry.example/notes")
        assert await consumer.client.outdated() == []
        assert consumer.codes().count("DEPRECATED") == 2
        assert not [path for path in consumer.driver.paths if path.endswith("versions.json")]
        for path in ("/.well-known/agent-skills/index.json", "/@acme/.well-known/agent-skills/index.json"):
            answer = await consumer.site.ask("GET", path)
            entry = answer.json()["skills"][1]
            assert entry["status"] == {"status": "deprecated", "reason": "because", "successor": "acme/diary"}

    @pytest.mark.parametrize("reference", [f"{PLACE}/notes@1.3.0", f"{PLACE}/notes"])
    async def test_a_quarantined_one_is_refused_with_the_reason(self, consumer, reference):
        for path in ("notes/1.3.0", "notes"):
            await consumer.state(path, "quarantined", reason="steals keys")
        with pytest.raises(TrustError, match="steals keys") as refused:
            await consumer.client.add(reference)
        assert refused.value.code == "QUARANTINED"

    async def test_versions_are_shown_with_dates_publisher_and_state(self, consumer):
        await consumer.state("notes/1.2.0", "yanked", reason="loses data")
        for reference in (f"{PLACE}/notes", "registry.example/notes"):
            versions = await (await consumer.client.show(reference)).versions()
            assert [(one.version, one.release.status, one.release.reason) for one in versions] == [
                ("2.0.0-rc.1", "active", ""),
                ("1.3.0", "active", ""),
                ("1.2.0", "yanked", "loses data"),
                ("1.0.0", "active", ""),
            ]
            assert all(one.release.published_by == "acme" and one.release.published for one in versions)


@pytest.mark.parametrize("what", ["package", "namespace"])
async def test_a_renamed_one_is_named(consumer, what):
    await consumer.client.add(f"{PLACE}/notes")
    if what == "package":
        await consumer.publish("diary", "2.0.0")
        path, body = "/packages/acme/notes", {"renamed_to": "acme/diary"}
    else:
        path, body = "/namespaces/acme/rename", {"to": "apex"}
    answer = await consumer.site.call("PATCH" if what == "package" else "POST", path, body, by="acme")
    assert answer.status == 200, answer.body
    consumer.site.look()
    new = "acme/diary" if what == "package" else "apex/notes"
    for flow in (consumer.client.outdated(), consumer.client.add(f"{PLACE}/notes")):
        consumer.findings.clear()
        await flow
        [finding] = [one for one in consumer.findings if one.code == "RENAMED"]
        assert finding.message == f"acme/notes is called {new} now"


class TestRenames:
    """The redirect of a registry is followed to the new name, and the lock has that."""

    NEW = "https://registry.example/@apex"

    async def rename(self, consumer, path, **fields):
        method = "PATCH" if "renamed_to" in fields else "POST"
        answer = await consumer.site.call(method, path, fields, by="acme")
        assert answer.status == 200, answer.body
        consumer.site.look()

    async def rename_package(self, consumer):
        await consumer.publish("diary", "2.0.0")
        await self.rename(consumer, "/packages/acme/notes", renamed_to="acme/diary")

    async def test_the_old_name_of_a_package_installs_the_new_one(self, consumer):
        await self.rename_package(consumer)
        await consumer.client.add(f"{PLACE}/notes")
        assert await consumer.versions() == {"diary": "2.0.0"}
        assert consumer.codes() == ["RENAMED"]
        assert not await consumer.client.outdated()

    async def test_a_package_that_was_renamed_since_is_not_updated_to_another_name(self, consumer):
        await consumer.client.add(f"{PLACE}/notes")
        await self.rename_package(consumer)
        (row,) = await consumer.client.outdated()
        assert (row.state, row.error.code) == ("gone", "RENAMED")
        assert f"skillwire add {ORIGIN}/@acme/diary, then skillwire remove notes" in row.error.fix
        await consumer.client.update()
        assert await consumer.versions() == {"notes": "1.3.0"}
        with pytest.raises(ConflictError, match="notes is called diary now"):
            await consumer.client.compare("notes", to="2.0.0")

    @pytest.mark.parametrize("how", ["update", "add the old name", "add the new name"])
    async def test_the_lock_moves_to_the_new_name_of_a_namespace(self, consumer, how):
        await consumer.client.add(f"{PLACE}/notes@^1.2")
        (before,) = await consumer.client.installed()
        await self.rename(consumer, "/namespaces/acme/rename", to="apex")
        (row,) = await consumer.client.outdated()
        assert (row.state, row.latest.origin, row.latest.digest) == ("changed", self.NEW, before.digest)
        if how == "update":
            await consumer.client.update()
        else:
            place = PLACE if how == "add the old name" else self.NEW
            await consumer.client.add(f"{place}/notes@^1.2")
        (after,) = await consumer.client.installed()
        index = f"{self.NEW}/.well-known/agent-skills/index.json"
        assert after == before._replace(origin=self.NEW, index=index)
        consumer.findings.clear()
        assert not await consumer.client.outdated()
        assert consumer.codes() == []

    async def test_consent_to_a_namespace_is_kept_under_its_new_name(self, consumer):
        consumer.client = consumer.open(trusted_origins=())
        await consumer.client.add(f"{PLACE}/notes", consent=True)
        await self.rename(consumer, "/namespaces/acme/rename", to="apex")
        await consumer.client.update()
        await consumer.client.add(f"{self.NEW}/notes")
        assert [one.origin for one in await consumer.client.installed()] == [self.NEW]

    async def test_a_namespace_that_another_account_has_is_another_origin(self, consumer):
        await consumer.client.add(f"{PLACE}/notes")
        await consumer.site.account("eve")
        assert (await consumer.site.publish("eve", skill_archive("notes", "9.0.0"))).status == 201
        consumer.site.look()
        with pytest.raises(ConflictError) as refused:
            await consumer.client.add(f"{ORIGIN}/@eve/notes")
        assert refused.value.code == "SKILL_CONFLICT"

    async def test_other_bytes_under_the_same_version_are_still_reported(self, consumer):
        await consumer.client.add(f"{PLACE}/notes")
        lock = consumer.project / "skills.lock"
        (before,) = await consumer.client.installed()
        text = lock.read_text().replace(before.digest.removeprefix("sha256:"), "0" * 64)
        lock.write_text(text.replace(before.files["SKILL.md"], "0" * 64))
        await self.rename(consumer, "/namespaces/acme/rename", to="apex")
        plan = await consumer.client.inspect(await consumer.client.plan_update(await consumer.client.compare()))
        assert [row.inspected.is_reused for row in plan.pending] == [True]


@pytest.mark.parametrize("token", [None, "unknown"])
async def test_a_registry_that_needs_an_account_names_the_login_for_registries(consumer, token):
    consumer.client = consumer.open()
    if token:
        consumer.client.set_token(ORIGIN, token)
    with pytest.raises(SkillwireError) as refused:
        await consumer.client.registry(ORIGIN).request("GET", "/tokens")
    assert refused.value.code == "AUTH_REQUIRED"
    assert f"un skillwire auth login --registry {ORIGIN}" in refused.value.diagnostics().fix


@pytest.mark.parametrize(("stated", "is_reported"), [("1.2.0", True), ("1.3.0", False)])
async def test_another_version_than_that_of_the_files_is_reported(consumer, tmp_path, stated, is_reported):
    consumer.client = consumer.open()
    consumer.client.set_token(ORIGIN, consumer.site.tokens["acme"])
    folder = write_skill(tmp_path, "minutes", version=stated)
    made = await consumer.client.registry(ORIGIN).publish(folder, version="1.3.0")
    assert made.version == "1.3.0"
    assert consumer.codes() == ["VERSION_DIFFERS"] * is_reported


class TestUpdates:
    @pytest.mark.parametrize(
        ("wanted", "before", "after"),
        [("", "1.3.0", "1.4.0"), ("@^1", "1.3.0", "1.4.0"), ("@1.2.0", "1.2.0", "1.2.0"), ("@~1.2", "1.2.0", "1.2.1")],
    )
    async def test_an_update_stays_within_the_range_that_was_asked_for(self, consumer, wanted, before, after):
        await consumer.client.add(f"{PLACE}/notes{wanted}")
        assert await consumer.versions() == {"notes": before}
        await consumer.publish("notes", "1.2.1", "1.4.0")
        outdated = await consumer.client.outdated()
        assert [row.latest.version for row in outdated] == ([after] if after != before else [])
        await consumer.client.update()
        assert await consumer.versions() == {"notes": after}

    async def test_a_yanked_version_is_outdated_even_by_a_lower_one(self, consumer):
        await consumer.client.add(f"{PLACE}/notes")
        await consumer.state("notes/1.3.0", "yanked", reason="loses data")
        [row] = await consumer.client.outdated()
        assert (row.state, row.error.code, row.latest.version) == ("changed", "YANKED", "1.2.0")
        await consumer.client.update()
        assert await consumer.versions() == {"notes": "1.2.0"}

    @pytest.mark.parametrize("place", [PLACE, "registry.example"])
    @pytest.mark.parametrize("status", ["yanked", "quarantined"])
    async def test_a_withdrawn_one_without_another_stays_installed(self, consumer, place, status):
        await consumer.publish("alone", "1.0.0")
        await consumer.client.add(f"{place}/alone")
        await consumer.state("alone/1.0.0", status)
        [row] = await consumer.client.outdated()
        assert (row.state, row.error.code) == ("gone", status.upper())
        assert "because" in row.error.message
        await consumer.client.update()
        assert await consumer.versions() == {"alone": "1.0.0"}
        await consumer.client.remove("alone")
        with pytest.raises(TrustError, match="because") as refused:
            await consumer.client.add(f"{place}/alone")
        assert refused.value.code == status.upper()

    @pytest.mark.parametrize(
        ("reference", "version", "versions"),
        [
            ("notes", "", ("1.2.0", "1.3.0")),
            ("notes", "1.0.0", ("1.2.0", "1.0.0")),
            (f"{PLACE}/notes", "", ("1.2.0", "1.3.0")),
            (f"{PLACE}/notes@1.0.0", "1.3.0", ("1.0.0", "1.3.0")),
        ],
    )
    async def test_versions_are_compared(self, consumer, reference, version, versions):
        await consumer.client.add(f"{PLACE}/notes@1.2.0")
        lock = consumer.project / "skills.lock"
        lock.write_text(lock.read_text().replace('"wanted": "1.2.0"', '"wanted": ""'))
        review = await consumer.client.diff(reference, version)
        assert (review.old_version, review.version) == versions
        assert [change.path for change in review.changes()] == ["SKILL.md"]
        assert await consumer.versions() == {"notes": "1.2.0"}

    @pytest.mark.parametrize("reference", ["notes", f"{PLACE}/notes@1.2.0"])
    async def test_a_yanked_version_that_is_named_exactly_is_compared_and_not_installed(self, consumer, reference):
        await consumer.client.add(f"{PLACE}/notes@1.2.0")
        await consumer.state("notes/1.3.0", "yanked", reason="loses data")
        review = await consumer.client.diff(reference, "1.3.0")
        assert (review.old_version, review.version) == ("1.2.0", "1.3.0")
        with pytest.raises(TrustError, match="loses data"):
            await consumer.client.compare("notes", to="1.3.0")


class TestRequirements:
    async def test_what_a_skill_requires_is_installed_with_it_and_locked(self, consumer):
        await consumer.publish("search", "1.0.0", capabilities=("full-text",))
        await consumer.publish("diary", "1.0.0", requires=("notes@~1.2", "capability:full-text"))
        await consumer.publish("year", "1.0.0", requires=("acme/diary@^1", "notes@<2"))
        plan = await consumer.client.plan(f"{PLACE}/year")
        assert {row.skill.name: row.required_by for row in plan.skills} == {
            "year": "",
            "diary": "year 1.0.0 -> diary 1.0.0",
            "notes": "year 1.0.0 -> notes 1.2.0",
            "search": "year 1.0.0 -> diary 1.0.0 -> search 1.0.0",
        }
        await consumer.client.apply(plan)
        assert await consumer.versions() == {"year": "1.0.0", "diary": "1.0.0", "notes": "1.2.0", "search": "1.0.0"}
        locked = {one.name: one.requires for one in await consumer.client.installed()}
        assert locked["diary"] == {"notes@~1.2": "notes", "capability:full-text": "search"}
        assert not (await consumer.client.verify()).deviations

    async def test_the_local_network_is_not_asked_for_a_capability(self, consumer):
        await consumer.publish("search", "1.0.0", capabilities=("full-text",))
        await consumer.publish("diary", "1.0.0", requires=("capability:full-text",))
        consumer.client = consumer.open(sources=("lan:",))
        plan = await consumer.client.plan(f"{PLACE}/diary")
        assert [row.skill.name for row in plan.skills] == ["diary", "search"]
        assert consumer.codes() == []

    @pytest.mark.parametrize(
        ("requires", "code", "text"),
        [
            (("nothing",), "DEPENDENCY_MISSING", "top 1.0.0 -> nothing: no skill meets"),
            (("notes@^3",), "DEPENDENCY_MISSING", "top 1.0.0 -> notes@^3: no skill meets this requirement; there are"),
            (("capability:none",), "DEPENDENCY_MISSING", "top 1.0.0 -> capability:none"),
            (("back",), "DEPENDENCY_CYCLE", "top 1.0.0 -> back 1.0.0 -> top is a circle"),
            (("top",), "DEPENDENCY_CYCLE", "top 1.0.0 -> top is a circle"),
            (
                ("notes@1.0.0", "narrow"),
                "DEPENDENCY_CONFLICT",
                "narrow 1.0.0 -> notes@1.3.0 needs another",
            ),
        ],
    )
    async def test_what_cannot_be_met_is_told_with_its_chain(self, consumer, requires, code, text):
        await consumer.publish("back", "1.0.0", requires=("top",))
        await consumer.publish("narrow", "1.0.0", requires=("notes@1.3.0",))
        await consumer.publish("top", "1.0.0", requires=requires)
        with pytest.raises((NotFoundError, ConflictError)) as refused:
            await consumer.client.add(f"{PLACE}/top")
        assert refused.value.code == code
        assert text in refused.value.message
        assert await consumer.versions() == {}

    async def test_an_installed_version_that_does_is_kept(self, consumer):
        await consumer.client.add(f"{PLACE}/notes@1.0.0")
        await consumer.publish("diary", "1.0.0", requires=("notes@^1",))
        report = await consumer.client.add(f"{PLACE}/diary")
        assert (await consumer.versions(), report.unchanged) == ({"diary": "1.0.0", "notes": "1.0.0"}, ("notes",))

    async def test_an_update_keeps_what_other_skills_require(self, consumer):
        await consumer.publish("diary", "1.0.0", requires=("notes@<1.3",))
        await consumer.client.add(f"{PLACE}/diary", f"{PLACE}/notes@1.0.0")
        await consumer.client.remove("notes", overwrite=True)
        deviations = (await consumer.client.verify()).deviations
        assert [(row.name, row.path, row.problem) for row in deviations] == [("diary", "notes@<1.3", "missing")]
        await consumer.client.add(f"{PLACE}/notes@<=1.2")
        consumer.client = consumer.open()
        lock = consumer.project / "skills.lock"
        lock.write_text(lock.read_text().replace('"wanted": "<=1.2"', '"wanted": ""'))
        [row] = await consumer.client.outdated()
        assert (row.latest.version, row.required_by) == ("1.3.0", ("diary (notes@<1.3)",))
        await consumer.client.update()
        assert (await consumer.versions())["notes"] == "1.2.0"
        await consumer.publish("diary", "1.1.0", requires=("notes@>=1.3",))
        held = (await consumer.client.update()).failed
        assert {name: error.code for name, error in held.items()} == dict.fromkeys(
            ("diary", "notes"), "UPDATE_ASKS_MORE"
        )
        assert await consumer.versions() == {"diary": "1.0.0", "notes": "1.2.0"}
        await consumer.client.update(accept=["diary"])
        assert await consumer.versions() == {"diary": "1.1.0", "notes": "1.3.0"}
        with pytest.raises(ConflictError, match="diary, which is installed, requires notes"):
            await consumer.client.add(f"{PLACE}/notes@1.0.0", overwrite=True)

    async def test_publishing_yanked_bytes_again_warns(self, consumer, tmp_path):
        write_skill(tmp_path / "mine", "memo")
        consumer.client.set_token(ORIGIN, consumer.site.tokens["acme"])
        registry = consumer.client.registry(ORIGIN)
        await registry.publish(tmp_path / "mine" / "memo", namespace="acme", version="1.0.0")
        await consumer.state("memo/1.0.0", "yanked", reason="loses data")
        await registry.publish(tmp_path / "mine" / "memo", namespace="acme", version="1.1.0")
        (finding,) = [one for one in consumer.findings if one.code == "YANKED"]
        assert finding.message == "acme/memo 1.0.0 has the same bytes, and is yanked: loses data"

    @pytest.mark.parametrize("dry_run", [True, False])
    async def test_publishing_warns_about_requirements_that_nothing_meets(self, consumer, dry_run, tmp_path):
        await consumer.publish("secret", "1.0.0", access="private", capabilities=("text",))
        met = ("notes@~1.2", "acme/notes", "other.example/far", "capability:text@^1", "acme/secret")
        unmet = ("notes@^3", "nothing", "acme/none@1.0.0", "capability:text@^2", "capability:none")
        write_skill(tmp_path / "mine", "diary", {"skill.toml": f"requires = {json.dumps([*met, *unmet])}\n"})
        consumer.client.set_token(ORIGIN, consumer.site.tokens["acme"])
        registry = consumer.client.registry(ORIGIN)
        await registry.publish(tmp_path / "mine" / "diary", namespace="acme", dry_run=dry_run)
        found = [one for one in consumer.findings if one.code == "DEPENDENCY_MISSING"]
        assert [one.message.rpartition(" ")[2] for one in found] == list(unmet)

    async def test_what_is_required_is_not_removed(self, consumer):
        await consumer.publish("diary", "1.0.0", requires=("notes",))
        await consumer.client.add(f"{PLACE}/diary")
        with pytest.raises(ConflictError, match="diary requires notes") as refused:
            await consumer.client.remove("notes")
        assert refused.value.code == "DEPENDENCY_NEEDED"
        await consumer.client.remove("notes", "diary")
        assert await consumer.versions() == {}

    async def test_dependents_are_told_to_those_who_may_know_them(self, consumer):
        await consumer.publish("diary", "1.0.0", requires=("notes",))
        await consumer.publish("secret", "1.0.0", requires=("notes",), access="private")
        answer = await consumer.site.call("GET", "/packages/acme/notes")
        assert answer.json()["dependents"] == ["acme/diary"]
        answer = await consumer.site.call("GET", "/packages/acme/notes", by="acme")
        assert answer.json()["dependents"] == ["acme/diary", "acme/secret"]
        assert (await consumer.site.call("GET", "/packages/acme/diary")).json()["versions"][0]["requires"] == ["notes"]


@pytest.mark.parametrize("answer", [(403, b"denied"), (500, b""), (200, b"<html></html>"), (200, b'{"versions": 1}')])
async def test_a_place_that_answers_unknown_paths_in_its_own_way_is_read_by_its_index(consumer, answer):
    send = consumer.driver.send

    async def odd(request):
        status, body = answer
        is_list = request.url.endswith("versions.json")
        return HttpResponse(request.url, status, {}, body) if is_list else await send(request)

    consumer.driver.send = odd
    await consumer.client.add("registry.example/notes")
    shown = await consumer.client.show("registry.example/notes")
    assert (await consumer.versions(), await shown.versions()) == ({"notes": "1.3.0"}, [])
    with pytest.raises(NotFoundError):
        await consumer.client.show("registry.example/nothing")


async def test_a_folder_requires_the_folder_beside_it_and_a_package_of_the_registry_in_the_settings(consumer):
    await consumer.publish("search", "1.0.0", capabilities=("full-text",))
    skills = consumer.project / "skills"
    write_skill(skills, "helper")
    toml = 'requires = ["helper@^1", "acme/notes@<1.3", "capability:full-text"]\n'
    write_skill(skills, "mine", {"skill.toml": toml})
    consumer.client = consumer.open(registry=ORIGIN, sources=(PLACE,))
    await consumer.client.add(str(skills / "mine"))
    assert await consumer.versions() == {"mine": "1.0.0", "helper": "1.0.0", "notes": "1.2.0", "search": "1.0.0"}
    consumer.client = consumer.open()
    with pytest.raises(NotFoundError, match="acme/notes"):  # no registry is named
        await consumer.client.add(str(skills / "mine"), overwrite=True)


async def test_the_origin_of_a_required_skill_needs_consent(consumer):
    await consumer.publish("far", "1.0.0", requires=("other.example/tool",))
    tool = b"---\nname: tool\ndescription: Does tool. Use when tool is asked for.\n---\nDo it.\n"
    send, index = (
        consumer.driver.send,
        {
            "$schema": SCHEMA_URI,
            "skills": [
                {
                    "name": "tool",
                    "type": "skill-md",
                    "description": "Does tool.",
                    "url": "/tool.md",
                    "digest": Digest.of(tool),
                }
            ],
        },
    )

    async def elsewhere(request):
        if request.url.startswith(ORIGIN):
            return await send(request)
        found = {"index.json": json.dumps(index).encode(), "tool.md": tool}.get(request.url.rpartition("/")[2])
        return HttpResponse(request.url, 200 if found else 404, {}, found or b"")

    consumer.driver.send = elsewhere
    plan = await consumer.client.plan(f"{PLACE}/far")
    assert plan.unknown_origins == ("https://other.example",)
    with pytest.raises(TrustError) as refused:
        await consumer.client.apply(plan)
    assert refused.value.code == "ORIGIN_UNKNOWN"


@pytest.mark.spec("SDP-center-scene")
@pytest.mark.parametrize(("registry", "found"), [(ORIGIN, ["directory"]), ("", [])])
async def test_the_registry_of_the_settings_is_asked_for_skills_of_a_scene(tmp_path, monkeypatch, registry, found):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    consumer = Consumer(RegistrySite(tmp_path, base_url=ORIGIN), tmp_path / "project")
    await consumer.site.account("acme")
    await consumer.publish("directory", "1.0.0", scenes=("auth",))
    client = consumer.open(registry=registry)
    assert [skill.name for skill in await client.lan.scene_skills("auth")] == found
    outcomes = {rung.name: rung.outcome for rung in client.rungs}
    assert outcomes["skillCenter"] == ("found" if registry else "off")
