"""Accounts: the first operator, people of an identity provider, last uses, and a log that shows what was changed."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryTokens

from skillwire import limits
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.tokens import SqlTokens
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import ConflictError, NotFoundError, StorageError, TrustError, UsageError
from skillwire.model.package import Account, AuditEntry, Change, Namespace
from skillwire.registry.accounts import REGISTRY_SCOPES, Accounts, Actor, NewToken, Person
from skillwire.registry.audit import chain_digest, verify_entries
from skillwire.registry.tokens import Tokens

ANN = Person("https://id.example", "42")
ROOT = Actor("root", frozenset(REGISTRY_SCOPES), is_operator=True, address="192.0.2.7", request_id="r-1")


class Registry:
    def __init__(self):
        self.now = 1_000_000.0
        self.packages = MemoryPackages()
        self.tokens = Tokens(MemoryTokens(self.packages), b"k" * 32, lambda: self.now)
        self.accounts = Accounts(self.packages, lambda: self.tokens, lambda: self.now)

    async def add(self, name, *person, is_operator=False):
        account = Account(name, 1.0, is_operator, *person)
        assert await self.packages.add_account(account, Change(1.0, name, "account.create", name))


@pytest.fixture
def registry():
    return Registry()


async def test_a_person_makes_one_account_and_signs_in_to_it(registry):
    assert await registry.accounts.sign_in(ANN, "192.0.2.7", "r-1") is None
    await registry.accounts.make_account(ANN, "ann", "192.0.2.7", "r-1")
    token = await registry.accounts.sign_in(ANN, "192.0.2.7", "r-2")
    assert (token.account, token.scopes) == ("ann", set(REGISTRY_SCOPES))
    assert token.expires == registry.now + limits.CONSOLE_SESSION_SECONDS
    with pytest.raises(ConflictError):
        await registry.accounts.make_account(ANN, "ann2", "192.0.2.7", "r-3")
    entries = await registry.packages.audit(0, 9)
    assert [one.change[1:4] for one in entries] == [
        ("ann", "account.create", "ann"),
        ("ann", "account.sign-in", "ann"),
    ]
    assert entries[1].change.details == {"id": token.token_id, "issuer": ANN.issuer}
    assert {one.change.address for one in entries} == {"192.0.2.7"}


@pytest.mark.parametrize(("left", "longest"), [(90 * 86_400.0 - 2, "at most 89d"), (3_600.0, None)])
async def test_a_token_that_would_outlive_its_maker_is_refused_with_the_day_and_what_works(registry, left, longest):
    own = await registry.tokens.issue("lead", scopes=REGISTRY_SCOPES, expires_in=left, account="root")
    lead = ROOT._replace(token_id=own.token.token_id)
    day = "1970-04-12" if longest else "1970-01-12"
    with pytest.raises(TrustError, match=f"your own token ends on {day}, before the new one") as refused:
        await registry.accounts.issue(lead, NewToken("ci", ["publish"], 90 * 86_400.0))
    assert (longest or "--expires") in str(refused.value.fix)
    assert ("at most" in str(refused.value.fix)) is bool(longest)
    made = await registry.accounts.issue(lead, NewToken("ci", ["publish"]))
    assert made.token.expires == registry.now + left


async def test_a_taken_name_is_refused(registry):
    await registry.add("bob")
    await registry.packages.add_namespace(Namespace("acme", 1.0), "bob", Change(1.0, "bob", "namespace.create", "acme"))
    for taken in ("bob", "acme"):
        with pytest.raises(ConflictError):
            await registry.accounts.make_account(ANN, taken, "", "")
    for malformed in ("", "A", "-a", "a/b", "x" * 65):
        with pytest.raises(UsageError):
            await registry.accounts.make_account(ANN, malformed, "", "")
    assert await registry.packages.account_of(*ANN) is None


async def test_two_people_who_choose_one_name_at_once_are_not_one_account(registry):
    both = [Person(ANN.issuer, subject) for subject in ("1", "2")]
    made = await asyncio.gather(
        *[registry.accounts.make_account(one, "ann", "", "") for one in both], return_exceptions=True
    )
    assert [type(one) for one in made if one] == [ConflictError]


async def test_ended_sessions_of_people_are_forgotten(registry):
    await registry.accounts.make_account(ANN, "ann", "", "")
    first = await registry.accounts.sign_in(ANN, "", "")
    registry.now += 2 * limits.CONSOLE_SESSION_SECONDS + 1
    second = await registry.accounts.sign_in(ANN, "", "")
    assert [one.token_id for one in await registry.tokens.all("ann")] == [second.token_id]
    assert first.token_id != second.token_id


async def test_operators_link_accounts_to_people(registry):
    await registry.add("root", is_operator=True)
    await registry.add("bob")
    await registry.add("eve", "https://id.example", "7")
    ended = await registry.tokens.issue("ended", account="root")
    await registry.tokens.revoke(ended.token.token_id)
    for actor in (ROOT._replace(is_operator=False), ROOT._replace(token_id=ended.token.token_id)):
        with pytest.raises(TrustError):
            await registry.accounts.link(actor, "bob", ANN)
    await registry.accounts.link(ROOT, "bob", ANN)
    session = await registry.accounts.sign_in(ANN, "", "")
    assert session.account == "bob"
    for name, person, error in (
        ("carl", ANN, NotFoundError),
        ("eve", ANN, ConflictError),
        ("eve", Person("https://id.example", ""), UsageError),
    ):
        with pytest.raises(error):
            await registry.accounts.link(ROOT, name, person)
    robot = await registry.tokens.issue("robot", scopes=["read"], account="bob")
    await registry.accounts.link(ROOT, "bob", Person("", ""))
    assert await registry.accounts.sign_in(ANN, "", "") is None
    assert not (await registry.tokens.look_up(session.token_id)).is_good_at(registry.now)
    assert await registry.tokens.look_up_good(robot.token.token_id)
    assert [one.change.action for one in await registry.packages.audit(3, 9)] == [
        "account.link",
        "account.sign-in",
        "account.link",
    ]


async def test_a_person_who_is_unlinked_while_signing_in_gets_no_session(registry, monkeypatch):
    await registry.add("root", is_operator=True)
    await registry.add("bob", *ANN)
    forget = registry.tokens.forget_ended

    async def unlink(*given, **named):
        await registry.accounts.link(ROOT, "bob", Person("", ""))
        return await forget(*given, **named)

    monkeypatch.setattr(registry.tokens, "forget_ended", unlink)
    assert await registry.accounts.sign_in(ANN, "", "") is None
    assert not any(one.is_good_at(registry.now) for one in await registry.tokens.all("bob"))


class StoppingDatabase(AsyncDatabase):
    """A database that stores so many more writes, and then fails."""

    left = 99

    async def write(self, call, turn=""):
        if not self.left:
            raise StorageError("DATABASE", "the disk is gone")
        self.left -= 1
        return await super().write(call, turn)


@pytest.mark.parametrize("deed", ["issue", "revoke", "revoke_here", "revoke_shown", "rotate_here", "sign_in"])
async def test_no_token_changes_without_its_entry_wherever_the_server_stops(deed, tmp_path):
    made, ended = {"token.create", "token.rotate", "account.sign-in"}, {"token.revoke"}
    for writes in range(4):
        database = StoppingDatabase(Database(tmp_path / f"{writes}.db"))
        packages, tokens = SqlPackages(database), Tokens(SqlTokens(database), b"k" * 32, lambda: 1_000_000.0)
        accounts = Accounts(packages, lambda: tokens, lambda: 1_000_000.0)  # noqa: B023  # called in this round
        own = await accounts.make_first_operator(Actor("root"))
        await accounts.make_account(ANN, "ann", "", "")
        root = ROOT._replace(token_id=own.token.token_id)
        other = await accounts.issue(root, NewToken("ci", ["publish"], account="ann"))
        deeds = {
            "issue": lambda: accounts.issue(root, NewToken("robot", ["read"])),  # noqa: B023  # called in this round
            "revoke": lambda: accounts.revoke(root, other.token.token_id),  # noqa: B023  # same
            "revoke_here": lambda: accounts.revoke_here(other.token.token_id),  # noqa: B023  # same
            "revoke_shown": lambda: accounts.revoke_shown(other.secret, "", ""),  # noqa: B023  # same
            "rotate_here": lambda: accounts.rotate_here(other.token.token_id, overlap=60.0),  # noqa: B023  # same
            "sign_in": lambda: accounts.sign_in(ANN, "", ""),  # noqa: B023  # same
        }
        database.left = writes
        with suppress(StorageError):
            await deeds[deed]()
        stored, log = await tokens.all(), [one.change for one in await packages.audit(0, 99)]
        assert {one.token_id for one in stored} == {one.details["id"] for one in log if one.action in made}
        revoked = {one.token_id for one in stored if one.revoked is not None}
        assert revoked == {one.details["id"] for one in log if one.action in ended}
        await database.close()


async def test_an_account_with_many_tokens_gets_no_further_one_and_still_a_session(registry, monkeypatch):
    monkeypatch.setattr(limits, "REGISTRY_TOKENS", 2)
    await registry.add("ann", *ANN)
    own = await registry.tokens.issue("own", scopes=REGISTRY_SCOPES, account="ann")
    ann = Actor("ann", frozenset(REGISTRY_SCOPES), token_id=own.token.token_id)
    made = await registry.accounts.issue(ann, NewToken("ci", ["publish"]))
    with pytest.raises(ConflictError, match="ann has 2 valid tokens") as refused:
        await registry.accounts.issue(ann, NewToken("ci", ["publish"]))
    assert refused.value.code == "TOKENS_FULL"
    assert await registry.accounts.sign_in(ANN, "", "")
    for token_id in {one.token_id for one in await registry.tokens.all("ann")} - {ann.token_id}:
        await registry.accounts.revoke(ann, token_id)
    assert not (await registry.tokens.look_up(made.token.token_id)).is_good_at(registry.now)
    assert await registry.accounts.issue(ann, NewToken("ci", ["publish"]))


async def test_the_token_of_the_first_operator_is_in_the_log(registry):
    code = await registry.accounts.prepare_first_operator()
    issued = await registry.accounts.claim_first_operator(code, Actor("ann", address="192.0.2.7", request_id="r-9"))
    _, made = [one.change for one in await registry.packages.audit(0, 9)]
    assert made[1:4] == ("ann", "token.create", "ann")
    assert made.details == {"id": issued.token.token_id, "scopes": sorted(REGISTRY_SCOPES)}
    assert (made.address, made.request_id) == ("192.0.2.7", "r-9")


async def test_an_operator_gets_a_new_token_on_the_server(registry):
    await registry.add("bob")
    await registry.accounts.make_first_operator(Actor("ann"))
    for other in ("bob", "eve", "A N", ""):
        with pytest.raises(NotFoundError, match="there is no operator"):
            await registry.accounts.issue_to_operator(Actor(other))
    issued = await registry.accounts.issue_to_operator(Actor("ann"))
    assert (issued.token.account, issued.token.scopes) == ("ann", set(REGISTRY_SCOPES))
    [made] = await registry.packages.audit(3, 9)
    assert (made.change.action, made.change.target, made.change.details["on"]) == ("token.create", "ann", "the server")
    assert made.change.details["id"] == issued.token.token_id


async def test_the_first_operator_takes_no_account_of_another_person(registry):
    await registry.accounts.make_account(ANN, "admin", "", "")
    code = await registry.accounts.prepare_first_operator()
    actor = Actor("admin", address="192.0.2.7", request_id="r-9")
    with pytest.raises(TrustError) as wrong:
        await registry.accounts.claim_first_operator("wrong", actor)
    assert "Copy the setup code" in str(wrong.value.fix)
    with pytest.raises(ConflictError):
        await registry.accounts.claim_first_operator(code, actor)
    issued = await registry.accounts.claim_first_operator(code, actor._replace(account="root"))
    assert issued.token.account == "root"
    assert (await registry.packages.account("admin")).subject == ANN.subject
    made = [one.change for one in await registry.packages.audit(1, 9)]
    assert [(one.account, one.address, one.request_id) for one in made] == [("root", "192.0.2.7", "r-9")] * 2
    for late in (code, "x"):
        with pytest.raises(ConflictError, match="the registry has an operator already"):
            await registry.accounts.claim_first_operator(late, actor._replace(account="second"))


async def test_the_last_use_of_an_accounts_token_is_stored_now_and_then(registry):
    issued = await registry.tokens.issue("ci", scopes=["read"], account="ann")
    number = issued.token.token_id
    await registry.tokens.recognise(issued.secret)
    assert (await registry.tokens.look_up(number)).used == registry.now
    first = registry.now
    registry.now += limits.TOKEN_USED_SECONDS
    await registry.tokens.recognise(issued.secret)
    assert (await registry.tokens.look_up(number)).used == first
    registry.now += 1
    await registry.tokens.recognise(issued.secret)
    assert (await registry.tokens.look_up(number)).used == registry.now
    key = await registry.tokens.issue("key")
    await registry.tokens.recognise(key.secret)
    assert (await registry.tokens.look_up(key.token.token_id)).used is None


class TestAuditLog:
    @pytest.fixture
    async def entries(self, registry):
        for name in ("a", "b", "c"):
            await registry.add(name)
        return list(await registry.packages.audit(0, 9))

    async def test_is_whole(self, entries):
        assert verify_entries(entries) == entries[-1]
        assert verify_entries(entries[1:], entries[0]) == entries[-1]

    @pytest.mark.parametrize("field", range(len(Change._fields) - 1))  # all but the right, which is not recorded
    async def test_shows_each_change_of_an_entry(self, entries, field):
        one = entries[1]
        values = list(one.change)
        values[field] = {"x": 1} if isinstance(values[field], dict) else 7.5 if field == 0 else "changed"
        entries[1] = one._replace(change=Change(*values))
        with pytest.raises(TrustError, match="entry 2 is not what was written"):
            verify_entries(entries)

    async def test_shows_removed_moved_and_inserted_entries(self, entries):
        first, second, third = entries
        forged = second.change._replace(account="eve")
        with_own_digest = AuditEntry(2, forged, chain_digest(first.digest, 2, forged))
        for broken in ([first, third], [second, third], [first, third, second], [first, with_own_digest, third]):
            with pytest.raises(TrustError) as caught:
                verify_entries(broken)
            assert caught.value.code == "AUDIT_BROKEN"


async def test_operators_make_others_and_one_is_left(registry):
    await registry.add("root", is_operator=True)
    await registry.add("bob")
    with pytest.raises(TrustError, match="only an operator changes accounts"):
        await registry.accounts.set_operator(Actor("bob"), "bob", is_operator=True)
    with pytest.raises(NotFoundError):
        await registry.accounts.set_operator(ROOT, "carl", is_operator=True)
    with pytest.raises(ConflictError, match="root is the only operator"):
        await registry.accounts.set_operator(ROOT, "root", is_operator=False)
    await registry.accounts.set_operator(ROOT, "bob", is_operator=True)
    await registry.accounts.set_operator(ROOT, "root", is_operator=False)
    assert [one.is_operator for one in await registry.accounts.list_accounts(ROOT, "", 9)] == [True, False]
    changes = [one.change for one in await registry.packages.audit(2, 9)]
    assert [(one.action, one.target, one.details) for one in changes] == [
        ("account.operator", "bob", {"operator": True}),
        ("account.operator", "root", {"operator": False}),
    ]
    with pytest.raises(TrustError):  # the token is valid, but the right has gone
        await registry.accounts.close(ROOT, "bob")


async def test_a_closed_account_has_no_token_no_person_and_no_right(registry):
    await registry.add("root", is_operator=True)
    await registry.add("bob", *ANN)
    await registry.accounts.set_operator(ROOT, "bob", is_operator=True)
    robot = await registry.tokens.issue("robot", scopes=["read"], account="bob")
    session = await registry.accounts.sign_in(ANN, "", "")
    await registry.accounts.close(ROOT, "bob")
    assert await registry.tokens.recognise(robot.secret) is None
    assert not (await registry.tokens.look_up(session.token_id)).is_good_at(registry.now)
    assert await registry.accounts.sign_in(ANN, "", "") is None
    assert not (await registry.packages.account("bob")).is_operator
    with pytest.raises(ConflictError, match="root is the only operator"):
        await registry.accounts.close(ROOT, "root")


async def test_a_token_makes_none_after_its_account_was_closed(registry, monkeypatch):
    await registry.add("root", is_operator=True)
    await registry.add("bob")
    own = await registry.tokens.issue("own", scopes=["read"], account="bob")

    async def close(*_):
        await registry.accounts.close(ROOT, "bob")

    monkeypatch.setattr("skillwire.registry.accounts.check_lifetime", close)
    bob = Actor("bob", frozenset(REGISTRY_SCOPES), token_id=own.token.token_id)
    with pytest.raises(TrustError, match="the token has ended"):
        await registry.accounts.issue(bob, NewToken("kept", ["read"]))
    assert [one.name for one in await registry.tokens.all("bob")] == ["own"]


async def test_a_token_that_is_refused_makes_no_account(registry, monkeypatch):
    monkeypatch.setattr(limits, "REGISTRY_TOKENS", 1)
    await registry.tokens.issue("own", scopes=["read"], account="bob")
    first = await registry.accounts.make_first_operator(Actor("root"))
    root, before = ROOT._replace(token_id=first.token.token_id), await registry.packages.audit(0, 9)
    for new, code in (
        (NewToken("laptop", ("publish",), account="bob"), "TOKENS_FULL"),
        (NewToken("", ("publish",), account="carol"), "TOKEN_FORM"),
    ):
        with pytest.raises((ConflictError, UsageError)) as refused:
            await registry.accounts.issue(root, new)
        assert refused.value.code == code
    assert await registry.packages.accounts("", 9) == [Account("root", registry.now, is_operator=True)]
    assert await registry.packages.audit(0, 9) == before


async def test_of_two_servers_that_make_a_first_operator_at_once_one_does(registry):
    servers = [Accounts(registry.packages, lambda: registry.tokens, lambda: registry.now) for _ in range(2)]
    codes = [await server.prepare_first_operator() for server in servers]
    look = registry.packages.has_operator

    async def look_together():
        found = await look()
        await asyncio.sleep(0)  # the other one looks before this one writes
        return found

    registry.packages.has_operator = look_together
    claims = [
        server.claim_first_operator(code, Actor(name))
        for server, code, name in zip(servers, codes, ("ann", "bob"), strict=True)
    ]
    made = await asyncio.gather(*claims, return_exceptions=True)
    refused = [one.code for one in made if isinstance(one, ConflictError)]
    assert refused == ["OPERATOR_EXISTS"]
    assert len([one for one in await registry.packages.audit(0, 9) if one.change.action == "account.create"]) == 1
