"""Access tokens of a real authorization server: of both kinds, taken back, ended, and after it changed its keys."""

import time
from types import SimpleNamespace

import pytest
from tests.support.oidc_provider import JWT_RESOURCE, OPAQUE_RESOURCE, RESOURCE_SERVER, oidc_provider

from skillwire import limits
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError, TrustError
from skillwire.server.auth.oauth import BearerTokens, issuer_policy
from skillwire.server.configuration import Credentials, Grants, OAuth2Settings
from skillwire.trust.address import AddressPolicy

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]


@pytest.fixture
async def servers(oidc_provider):
    """Give one of our servers for each kind of token, with a clock that can be moved on."""
    ahead = SimpleNamespace(seconds=0.0)
    assert RESOURCE_SERVER.secret

    def server(audience, secret):
        return BearerTokens(
            OAuth2Settings(issuer=oidc_provider.issuer, audience=audience),
            Grants(clients={"service": frozenset({"maps"})}),
            driver,
            credentials=Credentials(RESOURCE_SERVER.client_id, secret) if secret else None,
            clock=lambda: time.time() + ahead.seconds,
            monotonic=lambda: time.monotonic() + ahead.seconds,
        )

    policy = issuer_policy(AddressPolicy(), OAuth2Settings(issuer=oidc_provider.issuer, audience=""))
    async with AsyncDriver(policy) as driver:
        made = SimpleNamespace(
            jwt=server(JWT_RESOURCE, None),
            opaque=server(OPAQUE_RESOURCE, RESOURCE_SERVER.secret),
            misconfigured=server(OPAQUE_RESOURCE, "wrong"),
            ahead=ahead,
        )
        yield made
        for one in (made.jwt, made.opaque, made.misconfigured):
            await one.close()


async def reason(server, token):
    with pytest.raises(TrustError) as caught:
        await server.recognise(token)
    return caught.value.details["reason"]


async def test_jwt_opens_what_its_scopes_say(oidc_provider, servers):
    principal = await servers.jwt.recognise(oidc_provider.token(scope="skill:forecast publish"))
    assert principal.name == f"{oidc_provider.issuer}?client_id=service"
    assert principal.grants == {"forecast", "maps"}
    assert principal.scopes == {"skill:forecast", "publish"}


async def test_opaque_token_opens_what_its_scopes_say_until_it_is_taken_back(oidc_provider, servers):
    token = oidc_provider.token(resource=OPAQUE_RESOURCE, scope="skill:*")
    assert (await servers.opaque.recognise(token)).has("anything", "x")
    oidc_provider.revoke(token)
    servers.ahead.seconds += limits.INTROSPECTION_SECONDS
    assert await reason(servers.opaque, token) == "inactive"


async def test_token_for_another_server_is_refused(oidc_provider, servers):
    oidc_provider.change_keys()  # whatever came before, these servers ask for the keys now
    assert await reason(servers.opaque, oidc_provider.token()) == "audience"
    assert await reason(servers.jwt, oidc_provider.token(resource=OPAQUE_RESOURCE)) == "malformed"
    assert await reason(servers.opaque, "made-up") == "inactive"


async def test_token_that_has_ended_is_refused(oidc_provider, servers):
    oidc_provider.set_lifetime(20)
    token, opaque = oidc_provider.token(), oidc_provider.token(resource=OPAQUE_RESOURCE)
    oidc_provider.set_lifetime(300)
    assert await servers.jwt.recognise(token)
    assert await servers.opaque.recognise(opaque)
    servers.ahead.seconds += 20 + limits.TOKEN_LEEWAY_SECONDS
    assert await reason(servers.jwt, token) == "expired"
    assert await reason(servers.opaque, opaque) == "expired"


async def test_token_under_new_keys_is_taken_and_under_the_old_ones_no_longer(oidc_provider, servers):
    old = oidc_provider.token()
    assert await servers.jwt.recognise(old)
    oidc_provider.change_keys()
    servers.ahead.seconds += limits.ISSUER_RETRY_SECONDS
    assert await servers.jwt.recognise(oidc_provider.token())
    assert await reason(servers.jwt, old) == "key"


async def test_issuer_that_refuses_this_server_is_no_fault_of_the_caller(oidc_provider, servers):
    with pytest.raises(FetchError) as caught:
        await servers.misconfigured.recognise(oidc_provider.token(resource=OPAQUE_RESOURCE))
    assert caught.value.code == "ISSUER_UNAVAILABLE"
    assert "401" in caught.value.message
