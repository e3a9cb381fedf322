"""The OpenAPI document of a server with every row of its route table."""

from functools import cache

from skillwire.server import create_app, openapi


@cache
def routes():
    """Return the rows of a server that publishes nothing."""
    return create_app([]).routes


def document():
    return openapi.document(routes())
