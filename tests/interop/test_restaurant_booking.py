"""The story of SSP 5.1 with a real authorization server in the place of the example's stand-in."""

import pytest
from tests.support.booking import check_story, person, play
from tests.support.oidc_provider import JWT_RESOURCE, NATIVE, SERVICE, oidc_provider

pytestmark = pytest.mark.deep
__all__ = ["oidc_provider"]


def test_a_program_books_a_table(oidc_provider, tmp_path):
    known = ["--client-id", SERVICE.client_id, "--client-secret-env", "BOOKING_SECRET"]
    where = ["--issuer", oidc_provider.issuer, "--audience", JWT_RESOURCE]
    story = play(tmp_path, *where, *known, BOOKING_SECRET=str(SERVICE.secret))
    check_story(story, "client credentials", oidc_provider.issuer)


def test_a_person_books_a_table(oidc_provider, tmp_path):
    where = ["--issuer", oidc_provider.issuer, "--audience", JWT_RESOURCE, "--client-id", NATIVE.client_id]
    story = play(tmp_path, *where, "--browser", BROWSER=person(tmp_path))
    check_story(story, "authorization code with PKCE", oidc_provider.issuer)
