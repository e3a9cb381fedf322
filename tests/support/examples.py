"""How many examples a property is tried with: few in ``./dev test``, many in ``./dev test-deep``."""

from hypothesis import settings

FEW = 25
MANY = 200


def examples(deep: int) -> int:
    """Return ``deep`` in ``./dev test-deep``, for a property that needs more than the usual number there."""
    return deep if settings().max_examples > FEW else FEW
