"""Logins of programs without a browser: codes, a person's decision, and one token, once."""

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.memory_stores import MemoryDeviceLogins, MemoryTokens

from skillwire import limits
from skillwire.errors import NotFoundError, TrustError, UsageError
from skillwire.model.package import Account, Change
from skillwire.registry.accounts import REGISTRY_SCOPES, Actor
from skillwire.registry.audit import verify_entries
from skillwire.registry.device_logins import DeviceLogins
from skillwire.registry.tokens import Tokens


class World:
    """A registry with the account ``ann``, whose token decides, and a clock."""

    def __init__(self):
        self.now = 1_000_000.0
        self.packages = MemoryPackages()
        self.store = MemoryDeviceLogins(self.packages)
        self.tokens = Tokens(MemoryTokens(self.packages), b"k" * 32, lambda: self.now)
        self.logins = DeviceLogins(self.store, lambda: self.tokens, lambda: self.now)

    async def actor(self, *scopes):
        scopes = scopes or REGISTRY_SCOPES
        await self.packages.add_account(Account("ann", 1.0), Change(1.0, "ann", "account.create", "ann"))
        issued = await self.tokens.issue("own", scopes=scopes, account="ann")
        return Actor("ann", frozenset(scopes), False, "198.51.100.1", "r-1", issued.token.token_id)

    async def begin(self, *scopes, client="skillwire"):
        return await self.logins.begin(client, scopes, "192.0.2.7")

    async def poll(self, codes, client="skillwire", wait=5):
        self.now += wait
        return await self.logins.poll(client, codes.device_code, "192.0.2.7", "r-2")


@pytest.fixture
def world():
    return World()


async def test_an_approved_program_gets_an_ordinary_token_once(world):
    codes, ann = await world.begin("read", "publish"), await world.actor()
    assert await world.poll(codes) == "authorization_pending"
    assert (await world.logins.find(codes.user_code)).scopes == ("read", "publish")
    await world.logins.approve(ann, codes.user_code, ["publish", "namespace:acme"], 3600.0)
    issued = await world.poll(codes)
    token = issued.token
    assert (token.account, token.scopes) == ("ann", {"publish", "namespace:acme"})
    assert (token.name, token.expires) == ("skillwire (login)", world.now + 3600)
    assert (await world.tokens.recognise(issued.secret)).token_id == token.token_id
    assert await world.poll(codes) == "invalid_grant"
    with pytest.raises(NotFoundError):
        await world.logins.find(codes.user_code)


async def test_each_step_is_in_the_audit_log_with_its_request(world):
    codes, ann = await world.begin(), await world.actor()
    await world.logins.approve(ann, codes.user_code, ["read"], None)
    issued = await world.poll(codes)
    refused = await world.begin()
    await world.logins.refuse(ann, refused.user_code)
    entries = await world.packages.audit(1, 99)
    told = [(one.change.action, one.change.account, one.change.address, one.change.request_id) for one in entries]
    assert told == [
        ("token.approve", "ann", "198.51.100.1", "r-1"),
        ("token.create", "ann", "192.0.2.7", "r-2"),
        ("token.refuse", "ann", "198.51.100.1", "r-1"),
    ]
    assert entries[0].change.details == {"client": "skillwire", "scopes": ["read"], "from": "192.0.2.7"}
    assert entries[1].change.details["id"] == issued.token.token_id
    assert verify_entries(await world.packages.audit(0, 99))
    assert issued.secret not in repr(entries)


async def test_a_program_gets_none_of_an_account_that_has_as_many_as_it_may(world, monkeypatch):
    monkeypatch.setattr(limits, "REGISTRY_TOKENS", 1)
    codes, ann = await world.begin(), await world.actor()
    await world.logins.approve(ann, codes.user_code, ["read"], None)
    assert await world.poll(codes) == "access_denied"


async def test_a_refused_program_gets_none(world):
    codes, ann = await world.begin(), await world.actor()
    await world.logins.refuse(ann, codes.user_code)
    with pytest.raises(NotFoundError):
        await world.logins.approve(ann, codes.user_code, ["read"], None)
    assert await world.poll(codes) == "access_denied"
    assert len(await world.tokens.all()) == 1


@pytest.mark.parametrize("scopes", [("read",), REGISTRY_SCOPES])
async def test_what_a_token_with_an_end_approved_ends_with_it_and_that_of_a_session_does_not(world, scopes):
    for name in ("short", "browser sign-in"):
        codes, ann = await world.begin("read"), await world.actor(*scopes)
        own = (await world.tokens.issue(name, scopes=scopes, expires_in=60.0, account="ann")).token
        await world.logins.approve(ann._replace(token_id=own.token_id), codes.user_code, ["read"], None)
        assert (await world.poll(codes)).token.expires == (own.expires if name == "short" else None)


async def test_revoking_the_token_that_approved_ends_what_it_approved(world):
    codes, ann = await world.begin(), await world.actor()
    await world.logins.approve(ann, codes.user_code, ["read"], None)
    await world.tokens.revoke(ann.token_id)
    assert await world.poll(codes) == "access_denied"


async def test_codes_end(world):
    codes, ann = await world.begin(), await world.actor()
    world.now += limits.DEVICE_LOGIN_SECONDS
    with pytest.raises(NotFoundError, match="no login is waiting"):
        await world.logins.approve(ann, codes.user_code, ["read"], None)
    assert await world.poll(codes) == "expired_token"


async def test_a_program_that_hurries_waits_longer(world):
    codes = await world.begin()
    await world.poll(codes)
    assert await world.poll(codes, wait=4) == "slow_down"
    assert await world.poll(codes, wait=9) == "slow_down"
    assert await world.poll(codes, wait=15) == "authorization_pending"


async def test_a_code_is_of_one_client(world):
    codes, ann = await world.begin(), await world.actor()
    await world.logins.approve(ann, codes.user_code, ["read"], None)
    assert await world.poll(codes, client="other") == "invalid_grant"
    assert not isinstance(await world.poll(codes), str)


async def test_a_code_is_typed_as_people_type(world):
    codes = await world.begin()
    assert len(codes.user_code) == 9
    for typed in (codes.user_code.lower(), codes.user_code.replace("-", ""), f" {codes.user_code.replace('-', ' ')} "):
        assert await world.logins.find(typed)
    for typed in ("", "-", codes.user_code[:-1], f"{codes.user_code}B", "\U0001f511", "\ud800"):
        with pytest.raises(NotFoundError):
            await world.logins.find(typed)


async def test_no_code_stands_in_the_store(world):
    codes = await world.begin()
    kept = repr(world.store._logins)
    assert codes.device_code not in kept
    assert codes.user_code not in kept
    assert codes.user_code.replace("-", "") not in kept


@pytest.mark.parametrize(
    ("own", "asked", "granted", "error"),
    [
        (REGISTRY_SCOPES, ("read",), ("publish",), UsageError),
        (REGISTRY_SCOPES, ("read", "namespace:acme"), ("read",), UsageError),
        (REGISTRY_SCOPES, ("read", "namespace:acme"), ("read", "namespace:other"), UsageError),
        (REGISTRY_SCOPES, ("read",), (), UsageError),
        (REGISTRY_SCOPES, ("read",), ("namespace:acme",), UsageError),
        (("read",), ("read", "publish"), ("publish",), TrustError),
        (("read", "publish"), ("publish", "admin"), ("admin",), TrustError),
        (("publish", "namespace:acme"), ("publish",), ("publish",), TrustError),
        (("publish", "namespace:acme"), ("publish",), ("publish", "namespace:other"), TrustError),
        (("read",), ("read", "publish"), ("read",), None),
        (("publish",), ("read", "publish"), ("read", "publish"), None),
        (("publish", "namespace:acme"), ("publish",), ("publish", "namespace:acme"), None),
        (("admin", "namespace:acme"), ("read",), ("read",), TrustError),
        (("admin", "namespace:acme"), ("read",), ("read", "namespace:other"), TrustError),
        (("admin", "namespace:acme"), ("read",), ("read", "namespace:acme"), None),
    ],
)
async def test_a_grant_exceeds_neither_the_request_nor_the_person(world, own, asked, granted, error):
    codes, ann = await world.begin(*asked), await world.actor(*own)
    if error is None:
        await world.logins.approve(ann, codes.user_code, granted, None)
        return
    with pytest.raises(error):
        await world.logins.approve(ann, codes.user_code, granted, None)
    assert await world.poll(codes) == "authorization_pending"


@pytest.mark.parametrize(
    ("client", "scopes"),
    [("", ()), (" ", ()), ("a\nb", ()), ("x" * 65, ()), ("ok", ("root",)), ("ok", ("namespace:a",)), ("ok", ("",))],
)
async def test_what_no_program_may_ask_for_is_refused(world, client, scopes):
    with pytest.raises(UsageError):
        await world.logins.begin(client, scopes, "192.0.2.7")


async def test_logins_that_wait_are_bounded(world, monkeypatch):
    monkeypatch.setattr(limits, "DEVICE_LOGINS", 2)
    assert [await world.begin() is not None for _ in range(3)] == [True, True, False]


async def test_who_has_no_account_decides_nothing(world):
    codes = await world.begin()
    for decide in (
        world.logins.refuse(Actor(""), codes.user_code),
        world.logins.approve(Actor(""), codes.user_code, ["read"], None),
    ):
        with pytest.raises(TrustError):
            await decide
