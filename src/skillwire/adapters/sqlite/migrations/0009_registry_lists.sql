-- What lists and numbers of a registry select by. audit.namespace follows a renamed namespace, and is no part of the chain.
ALTER TABLE artifacts ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE artifacts SET size = ifnull(length(content), 0);

ALTER TABLE audit ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
UPDATE audit SET namespace = substr(target, 1, instr(target || '/', '/') - 1)
    WHERE action NOT LIKE 'account.%' AND action NOT LIKE 'token.%';
CREATE INDEX audit_namespace ON audit (namespace, number);

CREATE INDEX tokens_account ON tokens (account) WHERE account != '';

-- Logins of programs without a browser. device and user are keyed hashes of codes; scopes are those granted once there is a
-- decision.
CREATE TABLE device_logins (
    device BLOB PRIMARY KEY,
    user BLOB NOT NULL UNIQUE,
    client TEXT NOT NULL,
    scopes TEXT NOT NULL,
    address TEXT NOT NULL,
    expires REAL NOT NULL,
    interval REAL NOT NULL,
    polled REAL NOT NULL,
    decision TEXT NOT NULL,
    account TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    lifetime REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX device_logins_expires ON device_logins (expires);
