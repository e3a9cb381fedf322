"""Use cases of a registry without IO: publishing, accounts, tokens, device logins, search and the audit log."""
