"""Access tokens: a good one opens what it says; whatever is wrong with one is refused; a failing issuer is no 401."""

import json

import pytest
from tests.support.jose import AUDIENCE, ISSUER, NOW, signing_key
from tests.support.raw_server import RawServer, answer, serving

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError
from skillwire.server.auth.oauth import BearerTokens, issuer_policy
from skillwire.server.configuration import Grants, OAuth2Settings
from skillwire.trust.address import AddressPolicy


async def recognise_over_network(token, **settings):
    oauth2 = OAuth2Settings(audience=AUDIENCE, **settings)
    async with AsyncDriver(issuer_policy(AddressPolicy(), oauth2)) as driver:
        tokens = BearerTokens(oauth2, Grants(), driver, clock=lambda: NOW)
        try:
            return await tokens.recognise(token)
        finally:
            await tokens.close()


@pytest.mark.parametrize("url", [None, "http://169.254.169.254/keys", "https://10.0.0.1/keys", "https://[::1]/keys"])
async def test_keys_at_a_private_address_that_only_the_metadata_names_are_refused(url):
    body = json.dumps({"keys": [signing_key("RS256").jwk()]}).encode()
    metadata: dict[str, str] = {}

    def tell(peer):
        peer.request()
        peer.send(answer(json.dumps(metadata).encode()))

    with RawServer(serving(answer(body))) as keys, RawServer(tell) as issuer:
        metadata.update(issuer=issuer.url(""), jwks_uri=url or keys.url("/keys"))
        with pytest.raises(FetchError) as caught:
            await recognise_over_network(signing_key("RS256").token(), issuer=issuer.url(""))
        assert caught.value.code == "ISSUER_UNAVAILABLE"
        assert "REFUSED" in caught.value.message
        assert not keys.requests
        # What the operator wrote may lead there.
        assert await recognise_over_network(signing_key("RS256").token(), issuer=ISSUER, jwks_url=keys.url("/keys"))


async def test_keys_of_ten_megabytes_are_not_read():
    with RawServer(serving(answer(b'{"keys": [' + b" " * 10_000_000 + b"]}"))) as server:
        with pytest.raises(FetchError) as caught:
            await recognise_over_network(signing_key("RS256").token(), issuer=ISSUER, jwks_url=server.url("/keys"))
        assert "BODY_TOO_LARGE" in caught.value.message
