"""The packages of a registry: what its use cases decide before a store is asked."""

import asyncio

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryTokens
from tests.support.registry_site import skill_archive

from skillwire.errors import ConflictError, NotFoundError, TrustError
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import Account, Change, PackageName, Role, State, Status
from skillwire.registry.accounts import ADMIN, PUBLISH, Accounts, Actor, Person
from skillwire.registry.packages import Registry
from skillwire.registry.tokens import Tokens
from skillwire.server.transfers import read_upload


async def test_a_right_to_publish_counts_in_one_namespace():
    registry = Registry(MemoryPackages(), lambda: 1.0)
    right = await registry.check_publication(Actor("ann", frozenset({PUBLISH})), "ann")
    archive = skill_archive()
    with pytest.raises(ValueError, match="bob"):
        await registry.publish(right, read_upload(archive, "bob"), Digest.of(archive))
    assert (await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))).how == "created"


async def test_a_namespace_that_was_made_after_the_token_was_read_is_published_to():
    registry = Registry(MemoryPackages(), lambda: 1.0)
    ann, archive = Actor("ann", frozenset({PUBLISH})), skill_archive()
    first, second = [await registry.check_publication(ann, "ann") for _ in range(2)]
    for right in (first, second, await registry.check_publication(ann, "ann")):
        made = await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))
    assert made.how == "repeated"


async def test_the_removal_of_one_who_is_no_member_is_refused():
    store = MemoryPackages()
    registry, actor = Registry(store, lambda: 1.0), Actor("ann", frozenset({ADMIN}))
    await registry.create_namespace(actor, "acme")
    with pytest.raises(NotFoundError, match="'bbo' is no member of acme") as refused:
        await registry.set_role(actor, "acme", "bbo", None)
    assert (refused.value.code, "member list acme" in str(refused.value.fix)) == ("ACCOUNT_NOT_FOUND", True)
    assert [one.change.action for one in await store.audit(0, 9)] == ["namespace.create"]


async def test_a_token_for_other_namespaces_is_refused_with_its_limit():
    registry = Registry(MemoryPackages(), lambda: 1.0)
    actor = Actor("ann", frozenset({PUBLISH, "namespace:ann"}))
    await registry.create_namespace(Actor("ann", frozenset({ADMIN})), "bob")
    with pytest.raises(TrustError, match="does not reach bob; it is limited to ann") as refused:
        await registry.require(actor, Role.PUBLISHER, "bob", scope=PUBLISH)
    assert "--namespace ann" in str(refused.value.fix), "the fix does not widen the token"
    with pytest.raises(TrustError, match="needs the scope admin"):
        await registry.require(actor._replace(scopes=frozenset({PUBLISH})), Role.PUBLISHER, "bob", scope=ADMIN)


async def test_a_name_that_is_taken_by_oneself_belongs_to_no_other_account():
    registry, ann = Registry(MemoryPackages(), lambda: 1.0), Actor("ann", frozenset({ADMIN}))
    for name in ("team", "tools"):
        await registry.create_namespace(ann, name)
    await registry.create_namespace(Actor("bob", frozenset({ADMIN})), "bob")
    for taken in ("team", "tools", "bob"):
        for refused in (registry.rename_namespace(ann, "team", taken), registry.create_namespace(ann, taken)):
            with pytest.raises(ConflictError, match=f"the namespace {taken} is taken") as caught:
                await refused
            assert ("You have it already" in str(caught.value.fix)) == (taken != "bob")


async def test_a_state_an_access_and_a_reader_that_are_there_already_are_not_recorded_again():
    store = MemoryPackages()
    registry, actor = Registry(store, lambda: 1.0), Actor("ann", frozenset({PUBLISH, ADMIN}))
    await store.add_account(Account("bob", 1.0), Change(1.0, "bob", "account.create", "bob"))
    archive = skill_archive()
    right = await registry.check_publication(actor, "ann")
    await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))
    first = len(await store.audit(0, 99))
    yanked, archived = State(Status.YANKED, "leaks"), State(Status.ARCHIVED)
    for _ in range(2):
        package = await store.package(PackageName("ann", "notes"))
        await registry.set_version_state(actor, package, "1.0.0", yanked)
        await registry.change_package(actor, package, access=Access.PRIVATE, state=archived)
        await registry.set_reader(actor, package, "bob", may_read=True)
    await registry.set_version_state(actor, package, "1.0.0", State(Status.YANKED, "leaks keys"))
    await registry.set_reader(actor, package, "bob", may_read=False)
    assert [one.change.action for one in await store.audit(first, 99)] == [
        "version.yanked",
        "package.access",
        "package.archived",
        "package.share",
        "version.yanked",
        "package.share",
    ]


class TestChangesOfWhatWasReadBefore:
    """A change is judged by a package that was read before another change of it."""

    ANN = Actor("ann", frozenset({ADMIN, PUBLISH}))
    ROOT = Actor("root", frozenset({ADMIN}), is_operator=True)
    BAD = State(Status.QUARANTINED, "malware")

    @pytest.fixture
    async def registry(self):
        registry, archive = Registry(MemoryPackages(), lambda: 1.0), skill_archive()
        await registry.store.add_account(Account("root", 1.0, is_operator=True), Change(1.0, "root", "x", "root"))
        right = await registry.check_publication(self.ANN, "ann")
        await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))
        return registry

    @staticmethod
    async def read(registry):
        return await registry.store.package(PackageName("ann", "notes"))

    async def test_a_publisher_ends_no_quarantine_that_came_meanwhile(self, registry):
        before = await self.read(registry)
        await registry.change_package(self.ROOT, before, state=self.BAD)
        with pytest.raises(TrustError, match="only an operator"):
            await registry.change_package(self.ANN, before, state=State())
        assert (await self.read(registry)).state == self.BAD

    async def test_a_deleted_package_does_not_come_back(self, registry):
        before = await self.read(registry)
        await registry.change_package(self.ANN, before, state=State(Status.DELETED))
        for actor in (self.ANN, self.ROOT):
            with pytest.raises(NotFoundError):
                await registry.change_package(actor, before, state=State())
        assert (await self.read(registry)).state.status is Status.DELETED

    @pytest.mark.parametrize("by", [ANN, ROOT])
    async def test_a_change_beside_a_rename_is_refused(self, registry, by):
        before, entries = await self.read(registry), len(await registry.store.audit(0, 99)) + 1
        await registry.rename_namespace(self.ANN, "ann", "apex")
        for refused in (
            registry.change_package(by, before, access=Access.PRIVATE),
            registry.set_version_state(by, before, "", self.BAD if by.is_operator else State(Status.YANKED, "x")),
            registry.set_reader(by, before, "root", may_read=True),
        ):
            with pytest.raises((ConflictError, NotFoundError)):
                await refused
        assert len(await registry.store.audit(0, 99)) == entries

    async def test_a_narrower_access_is_answered_once_nothing_serves_the_package(self, registry):
        asked = []

        async def withdrawn():
            asked.append((await self.read(registry)).access)

        registry.withdrawn = withdrawn
        for access in (Access.RESTRICTED, Access.PUBLIC, Access.PRIVATE, Access.PRIVATE):
            await registry.change_package(self.ANN, await self.read(registry), access=access)
        assert asked == [Access.RESTRICTED, Access.PRIVATE, Access.PRIVATE]

    async def test_a_version_that_narrows_its_package_is_answered_once_nothing_serves_it(self, registry):
        asked, right = [], await registry.check_publication(self.ANN, "ann")

        async def withdrawn():
            asked.append((await self.read(registry)).access)

        registry.withdrawn = withdrawn
        for number, toml in enumerate(("", "access = 'private'", "access = 'private'")):
            archive = skill_archive(version=f"2.0.{number}", skill_toml=toml)
            await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))
        assert asked == [Access.PRIVATE]


async def test_an_account_and_a_namespace_that_are_made_at_once_share_no_name(monkeypatch):
    store = MemoryPackages()
    registry, ann = Registry(store, lambda: 1.0), Actor("ann", frozenset({ADMIN}))
    accounts = Accounts(store, lambda: Tokens(MemoryTokens(store), b"k" * 32, lambda: 1.0), lambda: 1.0)

    def looks_early(look):
        async def look_early(name):
            found = await look(name)
            await asyncio.sleep(0)  # the other one looks before this one writes
            return found

        return look_early

    for look in ("account", "namespace"):
        monkeypatch.setattr(store, look, looks_early(getattr(store, look)))
    made = await asyncio.gather(
        registry.create_namespace(ann, "bob"),
        accounts.make_account(Person("https://id.example", "42"), "bob", "", ""),
        return_exceptions=True,
    )
    assert [type(one) for one in made if isinstance(one, Exception)] == [ConflictError]
