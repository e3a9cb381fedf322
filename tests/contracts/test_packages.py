"""The packages of a registry: versions never change, names are never free again, every change is in the audit log."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest.mock import Mock

import pytest
from tests.support.catalogs import make_skill
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryTokens
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.postgres.connection import PostgresConnection
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.tokens import SqlTokens
from skillwire.adapters.sqlite.database import AsyncDatabase, SqliteConnection
from skillwire.errors import ConflictError, NotFoundError, SkillwireError, StorageError, TrustError
from skillwire.model.access import EVERY_SKILL, Access, Token
from skillwire.model.catalog import unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import (
    Account,
    AccountUpdate,
    Change,
    ChangeCursor,
    Namespace,
    Package,
    PackageName,
    PackageVersion,
    Proof,
    Right,
    Rights,
    Role,
    State,
    Status,
    StoredVersion,
)
from skillwire.registry.audit import verify_entries

NOTES, MEMOS = PackageName("acme", "notes"), PackageName("acme", "memos")
ALL = {EVERY_SKILL}
UPLOADED = Digest.of(b"as it was sent")


@pytest.fixture
def store(database, tmp_path):
    if database is None:
        return Blocking(MemoryPackages())
    is_file = isinstance(database, AsyncDatabase)
    return Blocking(SqlPackages(database, FileBlobs(tmp_path / "artifacts", durable=True) if is_file else None))


@pytest.fixture
def tokens(database, store):
    return Blocking(MemoryTokens(store.wrapped) if database is None else SqlTokens(database))


def change(action="test", at=1.0, **details):
    return Change(at, "ann", action, "acme", details, "192.0.2.1", "r-1")


def make_version(version="1.0.0", content=b"one", name="notes", at=2.0, **more):
    skill = make_skill(name, publisher="acme", **more)
    artifact = skill.artifact._replace(digest=Digest.of(content), size=len(content))
    return PackageVersion(skill._replace(version=version, artifact=artifact), at, "ann", UPLOADED)


def publish(store, version="1.0.0", content=b"one", **more):
    return store.publish(make_version(version, content, **more), content, change("version.publish")).how


class TestRights:
    def test_one_read_has_what_an_account_may_read(self, store):
        store.add_account(Account("ann", 1.0), change())
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        publish(store, name="shared")
        shared = NOTES._replace(name="shared")
        store.set_reader(shared, "ann", may_read=True, change=change())
        assert store.rights("ann") == Rights(Account("ann", 1.0), {"acme": Role.OWNER}, [shared])
        assert store.rights("bob") == Rights(None, {}, [])

    def test_the_names_that_an_account_took_are_counted_and_bounded(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change("namespace.create"))
        store.rename_namespace("acme", "apex", change("namespace.rename"))
        store.set_role("apex", "bob", Role.OWNER, change("member.set"))
        store.set_role("apex", "ann", None, change("member.remove"))
        before, by_bob = store.audit(0, 99), change("namespace.create")._replace(account="bob")
        for refused in (
            lambda: store.add_namespace(Namespace("more", 1.0), "ann", change("namespace.create"), most=2),
            lambda: store.rename_namespace("apex", "more", change("namespace.rename"), most=2),
        ):
            with pytest.raises(ConflictError) as caught:
                refused()
            assert (caught.value.code, store.namespace("more")) == ("NAMESPACES_FULL", None)
        assert store.audit(0, 99) == before
        assert store.add_namespace(Namespace("first", 1.0), "bob", by_bob, most=1)
        assert store.rename_namespace("apex", "more", change("namespace.rename"), most=3)
        assert store.add_namespace(Namespace("ann", 1.0), "ann", change("namespace.create"))

    def test_an_account_that_asks_for_many_names_at_once_gets_as_many_as_it_may(self, store):
        def ask(number):
            with suppress(ConflictError):
                entry = change("namespace.create")
                return store.add_namespace(Namespace(f"n{number}", 1.0), "ann", entry, most=3)

        with ThreadPoolExecutor(4) as pool:
            assert sorted(filter(None, pool.map(ask, range(8)))) == [True] * 3
        assert len(store.roles("ann")) == 3


class TestAccounts:
    def test_what_was_stored_is_found(self, store):
        account = Account("ann", 5.5, True, "https://id.example", "42")
        assert not store.has_operator()
        assert store.add_account(account, change())
        assert (store.account("ann"), store.account_of("https://id.example", "42")) == (account, account)
        assert store.has_operator()
        assert (store.account("bob"), store.account_of("https://id.example", "43")) == (None, None)

    def test_of_first_operators_at_once_one_is_made(self, store):
        def ask(number):
            return store.add_account(Account(f"u{number}", 1.0, is_operator=True), change(), is_first=True)

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(ask, range(8))) == [False] * 7 + [True]
        assert len(store.audit(0, 99)) == 1
        assert store.add_account(Account("more", 1.0, is_operator=True), change())

    def test_one_sign_in_is_one_account(self, store):
        assert store.add_account(Account("ann", 1.0, False, "https://id.example", "42"), change())
        assert not store.add_account(Account("bob", 1.0, False, "https://id.example", "42"), change())
        assert store.account("bob") is None
        assert not store.add_account(Account("ann", 2.0, True), change()), "a name is given out once"
        for name in ("carl", "dora"):  # without OpenID Connect there is none to compare
            assert store.add_account(Account(name, 1.0), change())
        assert store.account_of("", "") is None
        assert store.update_account(
            "dora", AccountUpdate(person=("https://id.example", "43"), revoked="session"), change()
        )
        assert not store.update_account(
            "dora", AccountUpdate(person=("https://id.example", "42"), revoked="session"), change()
        )
        assert store.update_account("dora", AccountUpdate(is_operator=True), change())
        assert store.account("dora") == Account("dora", 1.0, True, "https://id.example", "43")
        assert store.update_account("dora", AccountUpdate(person=("", ""), revoked="session"), change())
        assert store.account("dora") == Account("dora", 1.0, True)
        assert [entry.number for entry in store.audit(0, 99)] == [1, 2, 3, 4, 5, 6]

    def test_one_operator_is_left(self, store, tokens):
        for name in ("ann", "bob"):
            store.add_account(Account(name, 1.0, is_operator=True), change())
        tokens.add(make_token("t1", account="bob"))
        with ThreadPoolExecutor(2) as pool:
            done = list(
                pool.map(
                    lambda name: store.update_account(name, AccountUpdate(is_operator=False), change()), ("ann", "bob")
                )
            )
        assert sorted(done) == [False, True]
        (left,) = [one.name for one in store.accounts("", 9) if one.is_operator]
        assert not store.update_account(left, AccountUpdate(person=("", ""), is_operator=False, revoked=""), change())
        assert store.account(left).is_operator
        assert tokens.find("t1").revoked is None
        assert len(store.audit(0, 99)) == 3

    def test_all_tokens_of_an_account_are_revoked_or_those_of_a_name(self, store, tokens):
        for name in ("ann", "bob"):
            store.add_account(Account(name, 1.0, is_operator=True), change())
        for number, account, name in (("t1", "ann", "ci"), ("t2", "ann", "session"), ("t3", "bob", "ci")):
            tokens.add(make_token(number, account=account, name=name))
        at = change().at
        store.update_account("ann", AccountUpdate(revoked="session"), change())
        assert [tokens.find(one).revoked for one in ("t1", "t2", "t3")] == [None, at, None]
        store.update_account("ann", AccountUpdate(revoked=""), change()._replace(at=at + 1))
        assert [tokens.find(one).revoked for one in ("t1", "t2", "t3")] == [at + 1, at, None]

    def test_accounts_are_listed_by_name_in_pages(self, store):
        for name in ("dora", "ann", "carl", "bob"):
            store.add_account(Account(name, 1.0), change())
        assert [one.name for one in store.accounts("", 3)] == ["ann", "bob", "carl"]
        assert store.accounts("carl", 3) == [Account("dora", 1.0)]


class TestNamespaces:
    def test_a_name_is_given_out_once(self, store):
        namespace = Namespace("acme", 1.0, Proof("dns", "acme.example", 1.0))
        assert store.add_namespace(namespace, "ann", change())
        assert not store.add_namespace(namespace._replace(created=2.0), "bob", change())
        assert store.namespace("acme") == namespace
        assert store.members("acme") == {"ann": Role.OWNER}

    def test_of_many_who_want_a_name_one_gets_it(self, store):
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda who: store.add_namespace(Namespace("acme", 1.0), f"u{who}", change()), range(8)))
        assert sorted(got) == [False] * 7 + [True]
        assert list(store.members("acme")) == [f"u{got.index(True)}"]

    def test_a_namespace_and_the_account_of_another_person_share_no_name(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        assert not store.add_account(Account("acme", 1.0, False, "https://id.example", "42"), change())
        assert store.add_account(Account("acme", 1.0), change()), "an operator gives out any name"
        store.add_account(Account("bob", 1.0, False, "https://id.example", "43"), change())
        before = store.audit(0, 99)
        assert not store.add_namespace(Namespace("bob", 1.0), "ann", change(), most=9)
        assert not store.rename_namespace("acme", "bob", change(), most=9)
        assert (store.namespace("bob"), store.audit(0, 99)) == (None, before)
        by_bob = change()._replace(account="bob")
        assert store.rename_namespace("acme", "bob", by_bob, most=9), "the account has its own name"

    def test_of_an_account_and_a_namespace_that_want_a_name_at_once_one_gets_it(self, store):
        def ask(number):
            name = f"n{number // 2}"
            if number % 2:
                return store.add_namespace(Namespace(name, 1.0), "ann", change(), most=9)
            return store.add_account(Account(name, 1.0, False, "https://id.example", name), change())

        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(ask, range(8)))
        assert [sum(got[at : at + 2]) for at in range(0, 8, 2)] == [1] * 4

    def test_pages_go_on_behind_a_name(self, store):
        for name in ("c", "a", "b"):
            store.add_namespace(Namespace(name, 1.0), "ann", change())
        assert [one.name for one in store.namespaces("", 2)] == ["a", "b"]
        assert [one.name for one in store.namespaces("b", 2)] == ["c"]

    def test_proof_is_replaced(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        store.update_namespace(Namespace("acme", 1.0, Proof("operator", "", 3.0)), change())
        assert store.namespace("acme").proof == Proof("operator", "", 3.0)

    def test_a_renamed_one_keeps_everything_under_its_new_name(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        store.add_namespace(Namespace("other", 1.0), "bob", change())
        store.update_namespace(Namespace("acme", 1.0, Proof("dns", "acme.example", 3.0)), change())
        publish(store)
        store.set_reader(NOTES, "eve", may_read=True, change=change())
        assert not store.rename_namespace("acme", "other", change())
        assert store.rename_namespace("acme", "ajax", change())
        assert store.rename_namespace("ajax", "apex", change())
        for old in ("acme", "ajax"):
            assert store.namespace(old).renamed_to == "apex"
            assert not store.add_namespace(Namespace(old, 9.0), "eve", change())
        assert store.namespace("apex") == Namespace("apex", 1.0)  # the proof names the old one
        assert store.roles("ann") == {"apex": Role.OWNER}
        assert [one.name for one in store.namespaces("", 9)] == ["apex", "other"]
        moved = PackageName("apex", "notes")
        assert (store.package(NOTES), store.package(moved).latest) == (None, "1.0.0")
        assert store.version(moved, "1.0.0").skill.publisher == "apex"
        assert store.rights("eve").readable == [moved]
        assert unpack_skill(store.changed(ChangeCursor(), 9).packages[-1].served).publisher == "apex"

    def test_last_owner_stays(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        assert store.set_role("acme", "bob", Role.READER, change())
        for role in (None, Role.MAINTAINER):
            assert not store.set_role("acme", "ann", role, change())
        assert store.set_role("acme", "bob", Role.OWNER, change())
        assert store.set_role("acme", "ann", None, change())
        assert store.members("acme") == {"bob": Role.OWNER}
        assert (store.roles("ann"), store.roles("bob")) == ({}, {"acme": Role.OWNER})


class TestVersions:
    def test_what_was_published_is_found_as_it_was(self, store):
        version = make_version(scenes=("auth",), capabilities=("ocr",))
        package = Package(NOTES, 2.0, Access.PUBLIC, State(), "1.0.0")
        assert store.publish(version, b"one", change()) == StoredVersion("created", package, store.revision())
        assert store.publish(version, b"one", change()) == StoredVersion("repeated", package)
        assert store.package(NOTES) == package
        assert store.version(NOTES, "1.0.0") == version
        assert store.versions(NOTES) == store.by_artifact(Digest.of(b"one"), 9) == [version]
        assert store.artifact(Digest.of(b"one")) == b"one"

    def test_what_is_not_there_is_not_found(self, store):
        publish(store)
        other = PackageName("acme", "others")
        assert (store.package(other), store.version(other, "1.0.0"), store.versions(other)) == (None, None, [])
        assert (store.version(NOTES, "2.0.0"), store.artifact(Digest.of(b"two"))) == (None, None)
        assert (store.by_artifact(Digest.of(b"two"), 9), store.readers(other), store.downloads(other, "")) == (
            [],
            [],
            {},
        )

    def test_a_large_artifact_is_kept_too(self, store):
        content = bytes(limits.REGISTRY_ROW_BYTES + 1)
        assert publish(store, content=content) == "created"
        assert store.artifact(Digest.of(content)) == content

    def test_the_same_again_is_told_and_other_bytes_are_refused(self, store):
        publish(store)
        before = store.audit(0, 99)
        assert publish(store) == "repeated"
        assert publish(store, content=b"two") == "conflict"
        assert (store.artifact(Digest.of(b"one")), store.artifact(Digest.of(b"two"))) == (b"one", None)
        assert store.audit(0, 99) == before

    def test_a_package_has_as_many_versions_as_it_may(self, store, monkeypatch):
        publish(store)
        assert store.fits(make_version("2.0.0"))
        monkeypatch.setattr(limits, "REGISTRY_PACKAGE_BYTES", 1)
        assert publish(store, "2.0.0") == "full"
        assert not store.fits(make_version("2.0.0"))
        assert store.fits(make_version(name="other"))
        assert publish(store) == "repeated"
        assert [one.version for one in store.versions(NOTES)] == ["1.0.0"]

    def test_bytes_that_are_in_quarantine_are_not_published_again_in_their_package(self, store):
        publish(store)
        publish(store, "1.0.1")
        publish(store, "1.0.2", b"two")
        store.set_version_state(NOTES, "1.0.0", State(Status.YANKED, "old"), change())
        store.set_version_state(NOTES, "1.0.1", State(Status.QUARANTINED, "steals keys"), change())
        package, before = store.package(NOTES), store.audit(0, 99)
        refused = store.publish(make_version("1.0.3"), b"one", change())
        assert refused == StoredVersion("quarantined", package, reason="steals keys")
        assert (store.audit(0, 99), store.package(NOTES)) == (before, package)
        assert [publish(store, "1.0.0"), publish(store, "1.0.1")] == ["repeated", "repeated"]
        assert [publish(store, "1.0.3", b"two"), publish(store, name="memos")] == ["created", "created"]
        store.set_version_state(NOTES, "1.0.1", State(), change())
        assert publish(store, "1.0.4") == "created"

    def test_yanked_versions_with_the_same_bytes_are_returned(self, store):
        for number in ("1.0.0", "1.0.1", "1.0.2"):
            publish(store, number)
        publish(store, name="memos")
        for name, number, why in ((NOTES, "1.0.0", "old"), (NOTES, "1.0.1", ""), (MEMOS, "1.0.0", "elsewhere")):
            store.set_version_state(name, number, State(Status.YANKED, why), change())
        yanked = {"1.0.0": "old", "1.0.1": ""}
        assert store.publish(make_version("1.0.3"), b"one", change()).yanked == yanked
        assert store.publish(make_version("1.0.2"), b"one", change()).yanked == yanked
        assert store.publish(make_version("1.0.1"), b"one", change()).yanked == {"1.0.0": "old"}
        assert store.publish(make_version("1.0.4", b"two"), b"two", change()).yanked == {}

    @pytest.mark.parametrize("version", ["1.0.0", None])
    def test_the_entry_says_that_another_package_has_the_bytes_in_quarantine(self, store, version):
        publish(store, name="memos")
        state = State(Status.QUARANTINED, "steals keys")
        if version:
            store.set_version_state(MEMOS, version, state, change())
        else:
            store.change_package(MEMOS, [change()], state=state)
        publish(store, "1.0.0", b"two")
        publish(store, "1.0.1")
        *_, other, same = store.audit(0, 99)
        assert ("in_quarantine" in other.change.details, same.change.details["in_quarantine"]) == (False, True)

    def test_of_many_with_one_version_one_is_published(self, store):
        with ThreadPoolExecutor(4) as pool:
            how = list(pool.map(lambda number: publish(store, content=b"%d" % (number % 3)), range(12)))
        assert how.count("created") == 1
        first = how.index("created")
        assert [one for number, one in enumerate(how) if number % 3 == first % 3 and number != first] == [
            "repeated"
        ] * 3
        assert how.count("conflict") == 8
        assert len(store.versions(NOTES)) == 1

    def test_versions_are_in_order_of_precedence_and_the_latest_is_no_prerelease(self, store):
        for version in ("1.10.0", "1.9.0", "2.0.0-rc.2", "2.0.0-rc.10", "1.9.1"):
            publish(store, version, version.encode())
        found = [one.version for one in store.versions(NOTES)]
        assert found == ["2.0.0-rc.10", "2.0.0-rc.2", "1.10.0", "1.9.1", "1.9.0"]
        assert store.package(NOTES).latest == "1.10.0"

    def test_versions_that_differ_only_in_build_metadata_are_one(self, store):
        publish(store, "1.0.0+b")
        before = store.audit(0, 99)
        for version in ("1.0.0", "1.0.0+a", "1.0.0+b.1", "1.0.0+c"):
            refused = store.publish(make_version(version), b"one", change())
            assert refused == StoredVersion("precedence", reason="1.0.0+b")
        assert publish(store, "1.0.0+b") == "repeated"
        assert (store.audit(0, 99), [one.version for one in store.versions(NOTES)]) == (before, ["1.0.0+b"])
        for version in ("1.0.0-rc.1", "1.0.0-0", "1.0.1", "1.0.10+b"):
            assert publish(store, version, version.encode()) == "created"
        assert publish(store, "1.0.0-rc.1+x") == "precedence"

    def test_a_yanked_version_is_not_the_latest_and_stays(self, store):
        publish(store)
        publish(store, "2.0.0", b"two")
        yanked = State(Status.YANKED, "loses data")
        store.set_version_state(NOTES, "2.0.0", yanked, change())
        assert store.package(NOTES).latest == "1.0.0"
        assert store.version(NOTES, "2.0.0").state == yanked
        assert publish(store, "2.0.0", b"other") == "conflict"
        store.set_version_state(NOTES, "1.0.0", yanked, change())
        assert store.package(NOTES).latest == ""
        store.set_version_state(NOTES, "2.0.0", State(), change())
        assert store.package(NOTES).latest == "2.0.0"

    @pytest.mark.parametrize("status", [Status.ARCHIVED, Status.DELETED, Status.QUARANTINED])
    def test_a_closed_package_takes_no_versions(self, store, status):
        publish(store)
        state = State(status, "why", "acme/other")
        store.change_package(NOTES, [change()], state=state)
        assert store.package(NOTES).state == state
        assert publish(store, "2.0.0", b"two") == "closed"
        assert [one.version for one in store.versions(NOTES)] == ["1.0.0"]
        assert bool(store.packages("acme", "", 9, grants=ALL)) is (status is not Status.DELETED)

    def test_a_redirected_package_takes_no_versions(self, store):
        publish(store)
        publish(store, name="memo")
        store.redirect_package(NOTES, PackageName("acme", "memo"), change())
        assert store.package(NOTES).renamed_to == PackageName("acme", "memo")
        assert publish(store, "2.0.0", b"two") == "closed"

    def test_access_is_never_widened_by_a_version(self, store):
        publish(store)
        second = store.publish(make_version("2.0.0", b"two", access=Access.PRIVATE), b"two", change())
        assert (second.narrows, store.package(NOTES).access) == (True, Access.PRIVATE)
        assert not store.publish(make_version("3.0.0", b"three"), b"three", change()).narrows
        assert store.package(NOTES).access is Access.PRIVATE
        store.change_package(NOTES, [change()], access=Access.RESTRICTED)
        assert store.package(NOTES).access is Access.RESTRICTED

    def test_access_and_state_change_together_or_not_at_all(self, store):
        publish(store)
        before, changes = (store.package(NOTES), store.audit(0, 99)), [change("package.access"), change("package.x")]
        both = {"access": Access.PRIVATE, "state": State(Status.ARCHIVED, "why")}
        with pytest.raises(TypeError):  # the second entry cannot be written
            store.change_package(NOTES, [changes[0], change(value=object())], **both)
        assert (store.package(NOTES), store.audit(0, 99)) == before
        revision = store.revision()
        store.change_package(NOTES, changes, **both)
        assert store.package(NOTES) == before[0]._replace(**both)
        assert store.revision() == revision + 1
        entries = store.audit(0, 99)
        assert [one.change for one in entries[-2:]] == changes
        assert verify_entries(entries) == entries[-1]

    def test_pages_of_packages_go_on_behind_a_name(self, store):
        for name in ("c", "a", "b"):
            publish(store, name=name)
        assert [one.name.name for one in store.packages("acme", "", 2, grants=ALL)] == ["a", "b"]
        assert [one.name.name for one in store.packages("acme", "b", 2, grants=ALL)] == ["c"]
        assert store.packages("other", "", 2, grants=ALL) == []

    def test_private_packages_are_left_out_unless_they_are_granted(self, store):
        publish(store)
        for name in ("memo", "notes-2"):
            one = make_version(name=name)
            store.publish(one._replace(skill=one.skill._replace(requires=("notes",))), b"one", change())
        store.change_package(PackageName("acme", "memo"), [change()], access=Access.PRIVATE)
        granting = [{"*"}, {"acme/*"}, {"acme/memo"}, {"other/*", "acme/memo"}]
        for grants in (*granting, (), {"other/*", "other/memo", "acme/notes", "acme", "*/memo"}):
            memo = ["memo"] if grants in granting else []
            pages = (
                store.packages("acme", "", 9, grants=grants),
                store.find_packages("", PackageName("", ""), 9, grants=grants),
            )
            assert [[one.name.name for one in page] for page in pages] == [[*memo, "notes", "notes-2"]] * 2
            assert [one.name for one in store.dependents(NOTES, 9, grants=grants)] == [*memo, "notes-2"]
            assert [one.name.name for one in store.packages("acme", "", 1, grants=grants)] == [*memo, "notes"][:1]

    def test_packages_of_all_namespaces_are_found_by_name(self, store):
        for namespace, name in (("b", "notes"), ("a", "notes"), ("a", "note"), ("c", "memo"), ("d", "notes-2")):
            version = make_version(name=name)
            skill = version.skill._replace(publisher=namespace)
            store.publish(version._replace(skill=skill), b"one", change())

        def found(beginning, after, limit=9):
            return [str(one.name) for one in store.find_packages(beginning, PackageName(*after), limit, grants=ALL)]

        assert found("", ("", "")) == ["c/memo", "a/note", "a/notes", "b/notes", "d/notes-2"]
        assert found("notes", ("", "notes"), 2) == ["a/notes", "b/notes"]
        assert found("note", ("a", "notes")) == ["b/notes", "d/notes-2"]
        store.change_package(PackageName("a", "notes"), [change()], state=State(Status.DELETED))
        store.redirect_package(PackageName("b", "notes"), PackageName("c", "memo"), change())
        assert found("notes", ("", "")) == ["d/notes-2"]
        store.change_package(PackageName("a", "note"), [change()], access=Access.PRIVATE)
        store.redirect_package(PackageName("a", "note"), PackageName("c", "memo"), change())
        earlier = store.find_packages("note", PackageName("", ""), 9, grants=ALL, among="renamed")
        assert [str(one.name) for one in earlier] == ["a/note", "b/notes"]
        earlier = store.find_packages("note", PackageName("", ""), 9, grants=(), among="renamed")
        assert [str(one.name) for one in earlier] == ["b/notes"]

    def test_a_version_is_found_by_what_was_uploaded_in_its_namespace(self, store):
        publish(store)
        assert store.uploaded("acme", UPLOADED) == store.version(NOTES, "1.0.0")
        assert (store.uploaded("apex", UPLOADED), store.uploaded("acme", Digest.of(b"one"))) == (None, None)

    def test_packages_without_a_latest_version_may_be_left_out(self, store):
        for name in ("a", "b", "c"):
            publish(store, name=name)
        store.set_version_state(PackageName("acme", "b"), "1.0.0", State(Status.YANKED, "x"), change())
        for among, names in (("latest", ["a", "c"]), ("present", ["a", "b"])):
            page = store.find_packages("", PackageName("", ""), 2, grants=ALL, among=among)
            assert [one.name.name for one in page] == names

    def test_readers_are_let_in_and_out(self, store):
        publish(store)
        for account in ("eve", "dora", "eve"):
            store.set_reader(NOTES, account, may_read=True, change=change())
        assert (store.readers(NOTES), store.rights("eve").readable) == (["dora", "eve"], [NOTES])
        store.set_reader(NOTES, "eve", may_read=False, change=change())
        assert (store.readers(NOTES), store.rights("eve").readable) == (["dora"], [])


class TestChanges:
    def test_each_change_is_told_behind_the_cursor_with_what_is_served(self, store):
        for name in ("a", "b", "c"):
            publish(store, name=name)
        first = store.changed(ChangeCursor(), 2)
        assert [(one.package.name.name, unpack_skill(one.served).version) for one in first.packages] == [
            ("a", "1.0.0"),
            ("b", "1.0.0"),
        ]
        second = store.changed(first.cursor, 2)
        assert [one.package.name.name for one in second.packages] == ["c"]
        assert store.changed(second.cursor, 2) == second._replace(packages=())
        publish(store, "2.0.0", b"two", name="a")
        store.set_version_state(PackageName("acme", "b"), "1.0.0", State(Status.YANKED, "x"), change())
        store.change_package(PackageName("acme", "c"), [change()], state=State(Status.QUARANTINED))
        third = store.changed(second.cursor, 9)
        assert [(one.package.name.name, one.served and unpack_skill(one.served).version) for one in third.packages] == [
            ("a", "2.0.0"),
            ("b", None),
            ("c", None),
        ]
        assert [one.number for one in third.packages] == [1, 2, 3]
        store.change_package(PackageName("acme", "c"), [change()], state=State())
        store.change_package(PackageName("acme", "a"), [change()], access=Access.PRIVATE)
        assert store.package(PackageName("acme", "a"), with_private=False) is None
        assert store.package(PackageName("acme", "b"), with_private=False) == store.package(PackageName("acme", "b"))
        last = store.changed(third.cursor, 9).packages
        assert [(one.package.access, unpack_skill(one.served).version) for one in last] == [
            (Access.PUBLIC, "1.0.0"),
            (Access.PRIVATE, "2.0.0"),
        ]
        old = State(Status.DEPRECATED, "slow", "acme/b")
        store.set_version_state(PackageName("acme", "c"), "1.0.0", old, change())
        assert [one.state for one in store.changed(first.cursor, 9).packages] == [State(), State(), old]

    @pytest.mark.parametrize("other", [{"digest": "0" * 64}, {"entry": 9}, {"change": 99, "entry": 9}])
    def test_a_cursor_of_another_history_begins_anew(self, store, other):
        """As after a restore: its audit entry is not there, or another one."""
        for name in ("a", "b", "c"):
            publish(store, name=name)
        last = store.changed(ChangeCursor(), 9).cursor
        page = store.changed(last._replace(**other), 2)
        assert (page.is_anew, [one.number for one in page.packages]) == (True, [1, 2])
        rest = store.changed(page.cursor, 2)
        assert (rest.is_anew, [one.number for one in rest.packages], rest.cursor) == (False, [3], last)

    def test_every_change_is_in_the_audit_log_in_order(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change("namespace.create", text="\u00e9", number=1.5))
        publish(store)
        store.set_version_state(NOTES, "1.0.0", State(Status.YANKED, "x"), change("version.yanked"))
        entries = store.audit(0, 99)
        assert [entry.change.action for entry in entries] == ["namespace.create", "version.publish", "version.yanked"]
        assert entries[0].change == change("namespace.create", text="\u00e9", number=1.5)
        assert verify_entries(entries) == entries[-1]
        assert store.audit(1, 1) == entries[1:2]
        assert verify_entries(entries[1:], entries[0]) == entries[-1]
        forged = [*entries]
        forged[1] = entries[1]._replace(change=entries[1].change._replace(account="eve"))
        for broken in (forged, [entries[0], entries[2]], entries[1:]):
            with pytest.raises(TrustError) as caught:
                verify_entries(broken)
            assert caught.value.code == "AUDIT_BROKEN"

    def test_the_audit_log_of_a_namespace_has_its_renames(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change("namespace.create"))
        for old, new in (("acme", "ajax"), ("ajax", "apex")):
            store.rename_namespace(old, new, change("namespace.rename")._replace(target=old))
        actions = [(one.change.action, one.change.target) for one in store.audit(0, 99, ["apex"])]
        assert actions == [("namespace.create", "acme"), ("namespace.rename", "acme"), ("namespace.rename", "ajax")]
        assert store.audit(0, 99, ["acme", "ajax"]) == []

    def test_whose_an_entry_is_follows_from_what_the_chain_protects(self, store, database):
        store.add_namespace(Namespace("acme", 1.0), "ann", change("namespace.create"))
        store.record(change("version.publish")._replace(target="acme/notes@1.0.0"))
        store.record(change("token.create"))
        store.record(change("account.create"))

        async def hide(connection):
            await connection.run("UPDATE audit SET namespace = 'other'")

        if database:
            with pytest.raises(Exception, match="namespace"):
                Blocking(database).write(hide)
        assert [one.change.action for one in store.audit(0, 99, ["acme"])] == ["namespace.create", "version.publish"]

    def test_downloads_count_once_for_each_who_and_day(self, store):
        publish(store)
        for day, who in (("2026-11-23", b"a"), ("2026-11-24", b"a"), ("2026-11-24", b"a"), ("2026-11-24", b"b")):
            store.count_download(NOTES, "1.0.0", day, who)
        store.count_download(NOTES, "1.1.0", "2026-11-24", b"a")  # another version on the same day
        assert store.downloads(NOTES, "2026-11-23") == {"2026-11-23": 1, "2026-11-24": 2}
        assert store.downloads(NOTES, "2026-11-24") == {"2026-11-24": 2}

    def test_public_packages_are_ranked_by_their_names_in_the_catalog(self, store):
        publish(store)
        publish(store, content=b"two", name="maps")
        publish(store, content=b"three", name="plans", access=Access.PRIVATE)
        publish(store, "1.1.0", content=b"four")
        store.count_download(NOTES, "1.0.0", "2026-11-24", b"a")
        store.count_download(NOTES._replace(name="plans"), "1.0.0", "2026-11-24", b"a")
        ranks = store.rank()
        assert {name: ranks["downloads"][name] for name in ("acme/notes", "acme/maps")} == {
            "acme/notes": 1,
            "acme/maps": 0,
        }
        assert ranks["updated"]["acme/notes"] > ranks["updated"]["acme/maps"]
        assert not [name for order in ranks.values() for name in order if "plans" in name]


def make_token(token_id, expires=None, account="ann", name="t"):
    return Token(token_id, name, "api_key", frozenset(), frozenset(), 0.1, expires, account=account)


#: Each change of a namespace, of its package ``notes``, and of the latter's version.
CHANGES = {
    "namespace": lambda store, change: store.update_namespace(Namespace("acme", 1.0, Proof("operator")), change),
    "rename": lambda store, change: store.rename_namespace("acme", "ajax", change),
    "role": lambda store, change: store.set_role("acme", "ann", Role.OWNER, change),
    "publish": lambda store, change: store.publish(make_version("2.0.0", b"two"), b"two", change),
    "access": lambda store, change: store.change_package(NOTES, [change], access=Access.PRIVATE),
    "state": lambda store, change: store.change_package(NOTES, [change], state=State(Status.ARCHIVED)),
    "redirect": lambda store, change: store.redirect_package(NOTES, PackageName("acme", "memo"), change),
    "version": lambda store, change: store.set_version_state(NOTES, "1.0.0", State(Status.YANKED, "x"), change),
    "reader": lambda store, change: store.set_reader(NOTES, "eve", may_read=True, change=change),
}


class TestChangesThatWereAuthorizedBefore:
    """What was taken away, or changed, between the authorization of a change and its transaction."""

    @pytest.fixture
    def store(self, store):
        store.add_account(Account("ann", 1.0, is_operator=True), change())
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        store.set_role("acme", "bob", Role.OWNER, change())
        for name in ("notes", "memo"):
            publish(store, name=name)
        return store

    @pytest.fixture(params=sorted(CHANGES))
    def refusal(self, request, store):
        """Return a function that gives the code that a change is refused with, which changes nothing."""

        def refused(right, account="ann"):
            before = store.audit(0, 99), store.revision(), store.members("acme"), store.readers(NOTES)
            with pytest.raises(SkillwireError) as caught:
                CHANGES[request.param](store, change()._replace(account=account, right=right))
            assert (store.audit(0, 99), store.revision(), store.members("acme"), store.readers(NOTES)) == before
            return caught.value.code

        return refused

    @pytest.mark.parametrize("name", sorted(CHANGES))
    def test_one_whose_right_still_holds_is_stored_without_it(self, store, tokens, name):
        tokens.add(make_token("t1", expires=9.0))
        CHANGES[name](store, change()._replace(right=Right("t1", Role.OWNER)))
        assert store.audit(0, 99)[-1].change == change()

    def test_a_role_that_was_taken_away_refuses_it(self, store, refusal):
        store.set_role("acme", "ann", Role.READER, change())
        assert refusal(Right("", Role.PUBLISHER)) == "PERMISSION_DENIED"
        store.set_role("acme", "ann", None, change())
        assert refusal(Right("", Role.READER)) == "PERMISSION_DENIED"

    def test_a_token_that_has_ended_refuses_it(self, tokens, refusal):
        tokens.add(make_token("t1"))
        tokens.revoke("t1", 0.5)
        tokens.add(make_token("t2", expires=0.5))
        for token in ("t1", "t2"):
            assert refusal(Right(token, Role.READER)) == "AUTH_REQUIRED"

    def test_an_operator_who_is_none_any_more_is_refused(self, refusal):
        assert refusal(Right("", None, is_operator=True), "bob") == "PERMISSION_DENIED"

    def test_a_renamed_namespace_refuses_it(self, store, refusal):
        store.rename_namespace("acme", "apex", change())
        assert refusal(Right("", Role.OWNER)) == refusal(None) == "RENAMED"

    def test_a_new_namespace_needs_the_token_alone(self, store, tokens):
        new = Namespace("bob", 1.0), "bob"
        tokens.add(make_token("t1", expires=0.5))
        with pytest.raises(TrustError):
            store.add_namespace(*new, change()._replace(right=Right("t1")))
        assert store.add_namespace(*new, change()._replace(right=Right("")))

    def test_the_link_of_an_account_needs_an_operator_whose_token_is_valid(self, store, tokens):
        tokens.add(make_token("t1", expires=0.5))
        for token, account in (("t1", "ann"), ("", "bob")):
            by = change()._replace(account=account, right=Right(token, is_operator=True))
            with pytest.raises(TrustError):
                store.update_account("ann", AccountUpdate(person=("https://id.example", "42"), revoked="session"), by)
        assert store.account("ann") == Account("ann", 1.0, True)

    def test_only_an_operator_ends_a_quarantine(self, store):
        by_ann, by_operator = [change()._replace(right=Right("", Role.OWNER, one)) for one in (False, True)]
        bad = State(Status.QUARANTINED, "malware")
        store.change_package(NOTES, [change()], state=bad)
        store.set_version_state(NOTES, "1.0.0", bad, change())
        for state in (State(), State(Status.DELETED), State(Status.YANKED, "x")):
            with pytest.raises(TrustError, match="only an operator"):
                store.change_package(NOTES, [by_ann], state=state)
            with pytest.raises(TrustError, match="only an operator"):
                store.set_version_state(NOTES, "1.0.0", state, by_ann)
        store.change_package(NOTES, [by_ann], access=Access.PRIVATE)
        assert (store.package(NOTES).state, store.version(NOTES, "1.0.0").state) == (bad, bad)
        store.change_package(NOTES, [by_operator], state=State())
        store.set_version_state(NOTES, "1.0.0", State(), by_operator)
        assert (store.package(NOTES).state, store.version(NOTES, "1.0.0").state) == (State(), State())

    @pytest.mark.parametrize("name", ["access", "state", "redirect", "version", "reader"])
    def test_a_deleted_package_never_changes(self, store, name):
        store.change_package(NOTES, [change()], state=State(Status.DELETED))
        before = store.package(NOTES), store.audit(0, 99), store.readers(NOTES)
        with pytest.raises(NotFoundError):
            CHANGES[name](store, change())
        assert (store.package(NOTES), store.audit(0, 99), store.readers(NOTES)) == before

    def test_what_is_there_already_is_not_recorded_again(self, store):
        def change_all(access, *, may_read):
            both = {"access": access, "state": State(Status.ARCHIVED)}
            store.change_package(NOTES, [change("access"), change("state")], **both)
            store.set_version_state(NOTES, "1.0.0", State(Status.YANKED, "x"), change("version"))
            store.set_reader(NOTES, "eve", may_read=may_read, change=change("reader"))
            return [one.change.action for one in store.audit(0, 99)]

        first = change_all(Access.PRIVATE, may_read=True)
        revision = store.revision()
        assert first[-4:] == ["access", "state", "version", "reader"]
        assert (change_all(Access.PRIVATE, may_read=True), store.revision()) == (first, revision)
        assert change_all(Access.RESTRICTED, may_read=False) == [*first, "access", "reader"]

    def test_a_version_that_is_not_there_changes_nothing(self, store):
        before = store.audit(0, 99)
        with pytest.raises(NotFoundError):
            store.set_version_state(NOTES, "9.0.0", State(), change())
        assert store.audit(0, 99) == before

    def test_of_two_opposite_redirects_one_is_stored(self, store):
        memo = PackageName("acme", "memo")
        store.redirect_package(NOTES, memo, change())
        for redirect in ((memo, NOTES), (NOTES, memo)):
            with pytest.raises(ConflictError) as caught:
                store.redirect_package(*redirect, change())
            assert caught.value.code == "RENAMED"
        assert (store.package(NOTES).renamed_to, store.package(memo).renamed_to) == (memo, None)

    @pytest.mark.parametrize("name", ["access", "state", "reader"])
    def test_a_package_that_redirects_by_then_refuses_it(self, store, name):
        store.redirect_package(NOTES, PackageName("acme", "memo"), change())
        with pytest.raises(ConflictError) as caught:
            CHANGES[name](store, change())
        assert caught.value.code == "RENAMED"
        CHANGES["version"](store, change())

    def test_a_redirect_needs_the_role_in_both_namespaces(self, store):
        store.add_namespace(Namespace("beta", 1.0), "bob", change())
        one = make_version(name="notes")
        store.publish(one._replace(skill=one.skill._replace(publisher="beta")), b"one", change())
        by_ann = change()._replace(right=Right("", Role.MAINTAINER))
        with pytest.raises(TrustError, match="in beta"):
            store.redirect_package(NOTES, PackageName("beta", "notes"), by_ann)


class TestDependents:
    def test_the_packages_whose_latest_version_requires_one(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        store.add_namespace(Namespace("other", 1.0), "ann", change())
        for name, version, requires in [
            ("notes", "1.0.0", ()),
            ("diary", "1.0.0", ("notes@^1", "capability:pdf-read", "example.com/notes")),
            ("letters", "1.0.0", ("acme/notes",)),
            ("letters", "1.1.0", ("other/notes",)),
            ("maps", "1.0.0", ("acme/notes", "notes")),
        ]:
            one = make_version(version, f"{name} {version}".encode(), name)
            store.publish(one._replace(skill=one.skill._replace(requires=requires)), b"", change("version.publish"))
        assert self.names(store, NOTES) == ["diary", "maps"]
        assert self.names(store, PackageName("other", "notes")) == ["letters"]
        store.set_version_state(PackageName("acme", "letters"), "1.1.0", State(Status.YANKED, "x"), change())
        assert self.names(store, NOTES) == ["diary", "letters", "maps"]
        assert self.names(store, NOTES, 2) == ["diary", "letters"]
        store.change_package(PackageName("acme", "maps"), [change()], state=State(Status.DELETED))
        assert self.names(store, NOTES) == ["diary", "letters"]

    def test_they_follow_a_renamed_namespace(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        publish(store)
        self.require(store, "early", ("acme/notes", "apex/notes"))
        store.rename_namespace("acme", "apex", change())
        self.require(store, "late", ("acme/notes",))
        assert self.names(store, PackageName("apex", "notes")) == ["early", "late"]

    @staticmethod
    def require(store, name, requires):
        one = make_version("1.0.0", name.encode(), name)
        skill = one.skill._replace(publisher="beta", requires=requires)
        store.publish(one._replace(skill=skill), name.encode(), change("version.publish"))

    @staticmethod
    def names(store, name, limit=9):
        return [one.name for one in store.dependents(name, limit, grants=ALL)]


class TestRedirects:
    def test_a_chain_of_redirects_and_a_renamed_namespace_lead_to_the_last_name(self, store):
        store.add_namespace(Namespace("acme", 1.0), "ann", change())
        for name in ("notes", "memos", "jottings"):
            publish(store, name=name, content=name.encode())
        store.redirect_package(NOTES, PackageName("acme", "memos"), change())
        store.redirect_package(PackageName("acme", "memos"), PackageName("acme", "jottings"), change())
        last = PackageName("acme", "jottings")
        assert [store.package(PackageName("acme", name)).renamed_to for name in ("notes", "memos")] == [last, last]
        assert publish(store, "2.0.0", b"two") == "closed"
        store.rename_namespace("acme", "apex", change())
        assert store.package(PackageName("apex", "notes")).renamed_to == PackageName("apex", "jottings")
        served = [one.package.name.name for one in store.changed(ChangeCursor(), 9).packages if one.served]
        assert served == [one.name.name for one in store.packages("apex", "", 9, grants=ALL)] == ["jottings"]


def test_statistics_count_what_somebody_may_know_of(store):
    store.add_namespace(Namespace("acme", 1.0), "ann", change())
    publish(store)
    publish(store, "2.0.0", b"more")
    publish(store, content=b"hidden", name="plans", access=Access.PRIVATE)
    store.count_download(NOTES, "1.0.0", "2026-11-28", b"somebody")
    counts = {"namespaces": 1, "packages": 1, "versions": 2, "downloads": 1, "bytes": 7}
    assert store.statistics(with_private=False) == counts
    assert store.statistics(with_private=True) == counts | {"packages": 2, "versions": 3, "bytes": 13}


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
class TestUnowned:
    @pytest.fixture
    def large(self, tmp_path):
        return FileBlobs(tmp_path / "artifacts", durable=True)

    @pytest.fixture
    def store(self, database, large):
        return Blocking(SqlPackages(database, large))

    def test_only_old_artifacts_without_a_version_go(self, store, large, tmp_path):
        content, left = bytes(limits.REGISTRY_ROW_BYTES + 1), b"left by a killed server"
        assert publish(store, content=content) == "created"
        large.put(left)
        (tmp_path / "artifacts/ab").mkdir(exist_ok=True)
        (tmp_path / "artifacts/ab/.half.tmp").write_bytes(b"x")
        assert store.remove_unowned(1.0) == 0
        for path, _ in list(large.files()):
            os.utime(path, (5, 5))
        large.put(left)  # a publication that is on its way
        assert store.remove_unowned(10.0) == 1
        assert large.read(Digest.of(left)) == left
        for path, _ in list(large.files()):
            os.utime(path, (5, 5))
        assert store.remove_unowned(10.0) == 1
        assert store.artifact(Digest.of(content)) == content
        assert (large.read(Digest.of(left)), list(tmp_path.glob("artifacts/*/.half*"))) == (None, [])

    def test_bytes_that_are_stored_again_after_they_were_listed_stay(self, store, large, monkeypatch):
        left = b"left by a killed server"
        large.put(left)
        for path, _ in list(large.files()):
            os.utime(path, (5, 5))
        listed = list(large.aged(10.0))
        monkeypatch.setattr(large, "aged", lambda _: listed)
        large.put(left)
        assert store.remove_unowned(10.0) == 0
        assert large.read(Digest.of(left)) == left

    def test_an_artifact_that_is_removed_before_its_version_is_stored_again(self, store, large, monkeypatch):
        content, put = bytes(limits.REGISTRY_ROW_BYTES + 1), large.put

        def put_and_remove(content):
            monkeypatch.setattr(large, "put", put)
            digest = put(content)
            assert store.remove_unowned(math.inf) == 1
            return digest

        monkeypatch.setattr(large, "put", put_and_remove)
        assert publish(store, content=content) == "created"
        assert store.artifact(Digest.of(content)) == content

    def test_a_transaction_of_a_publication_waits_for_no_large_artifact(self, store, monkeypatch):
        for kind in (SqliteConnection, PostgresConnection):
            monkeypatch.setattr(kind, "run_blocking", Mock(side_effect=AssertionError))
        assert publish(store, content=bytes(limits.REGISTRY_ROW_BYTES + 1)) == "created"

    def test_a_version_whose_artifact_may_have_been_removed_is_not_stored(self, store, monkeypatch):
        monkeypatch.setattr(limits, "REGISTRY_UNOWNED_SECONDS", -1)  # as if the publication had taken longer
        with pytest.raises(StorageError):
            publish(store, content=bytes(limits.REGISTRY_ROW_BYTES + 1))
        assert store.versions(NOTES) == []
