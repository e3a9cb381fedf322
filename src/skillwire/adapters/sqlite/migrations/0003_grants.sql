-- What people agreed to have executed here: an artifact with a set of permissions, and no other. permissions is the
-- digest of the set; files, network and secrets are JSON, for people who look again.
CREATE TABLE grants (
    digest TEXT NOT NULL,
    permissions TEXT NOT NULL,
    network TEXT NOT NULL,
    secrets TEXT NOT NULL,
    skill TEXT NOT NULL,
    version TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at REAL NOT NULL,
    files TEXT NOT NULL,
    UNIQUE (digest, permissions)
) STRICT;
