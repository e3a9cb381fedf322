"""Credentials to store, and a keyring in memory."""

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from skillwire.model.credential import Credential, TokenRenewal

ORIGIN = "https://skills.example"
KEY = Credential(ORIGIN, "api_key", "hush-key", "login", header="X-API-Key")
GRANT = TokenRenewal("https://auth.example/token", "me", "hush-client", False, "hush-refresh", scope="a")
TOKEN = Credential(ORIGIN, "oauth2", "hush-access", "login", expires_at=12.5, grant=GRANT)


class Memory(KeyringBackend):
    """A keyring in memory, which may be locked."""

    priority = 1

    def __init__(self):
        super().__init__()
        self.entries = {}
        self.locked = False

    def _check(self):
        if self.locked:
            raise KeyringLocked("hush-key is locked")

    def get_password(self, service, username):
        self._check()
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        self._check()
        self.entries[service, username] = password

    def delete_password(self, service, username):
        self._check()
        del self.entries[service, username]
