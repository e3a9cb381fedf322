-- Tokens that a publisher gave. digest is a keyed hash; no secret stands here.
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('api_key', 'signing_key')),
    skills TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL,
    revoked REAL,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;
