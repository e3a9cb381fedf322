"""The query of a URL, as programs send it."""

from __future__ import annotations

from urllib.parse import parse_qsl

from skillwire.errors import UsageError


def read_pairs(query: bytes, most: int) -> list[tuple[str, str]]:
    """Return the parameters of a query with their values, in order; empty values are kept.

    Args:
        query: as it came. Trust: a stranger's.
        most: so many parameters are read.

    Raises:
        UsageError: ``QUERY`` when there are more.
    """
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        raise UsageError("QUERY", f"there are more than {most} parameters") from error
