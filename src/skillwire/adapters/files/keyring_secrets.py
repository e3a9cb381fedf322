"""Secrets in the system's keyring, with the extra ``keyring``: one entry for each origin, under the service name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skillwire.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVICE: Final = "skillwire"


class KeyringSecrets:
    """The keyring that the package ``keyring`` finds.

    Raises:
        StorageError: ``KEYRING`` when the extra is not installed; from each method, when the keyring refuses.
    """

    def __init__(self) -> None:
        try:
            import keyring  # noqa: PLC0415  # an extra, and slow: it looks for a keyring when it is imported
        except ImportError as error:
            fix = "Install it: pip install 'skillwire[keyring]'; or set credential_store to file."
            raise StorageError("KEYRING", "the extra keyring is not installed", fix=fix) from error
        self._keyring = keyring

    def load(self, origin: str) -> str | None:
        """Return the secrets of ``origin``, as :meth:`keep` got them."""
        with _refusals():
            return self._keyring.get_password(_SERVICE, origin)

    def keep(self, origin: str, secrets: str) -> None:
        """Keep the secrets of ``origin``."""
        with _refusals():
            self._keyring.set_password(_SERVICE, origin, secrets)

    def forget(self, origin: str) -> None:
        """Remove the secrets of ``origin``; nothing happens when there are none."""
        with _refusals():
            if self._keyring.get_password(_SERVICE, origin) is not None:
                self._keyring.delete_password(_SERVICE, origin)


@contextmanager
def _refusals() -> Iterator[None]:
    from keyring.errors import KeyringError  # noqa: PLC0415  # an extra

    try:
        yield
    except KeyringError as error:  # its text comes from the system and may be anything; its kind says enough
        raise StorageError("KEYRING", f"the system's keyring refused: {type(error).__name__}") from None
