-- The registry. Numbers that only rise: packages.first (order of first publication), packages.changed (cursor of changes;
-- one writer commits at a time, so their order is that of the commits).
CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    created REAL NOT NULL,
    is_operator INTEGER NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX accounts_subject ON accounts (issuer, subject) WHERE issuer != '';

CREATE TABLE namespaces (
    name TEXT PRIMARY KEY,
    created REAL NOT NULL,
    proof TEXT NOT NULL,
    domain TEXT NOT NULL,
    proven REAL NOT NULL,
    renamed_to TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    namespace TEXT NOT NULL,
    account TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (namespace, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_account ON members (account);

CREATE TABLE packages (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    created REAL NOT NULL,
    access TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    successor TEXT NOT NULL DEFAULT '',
    latest TEXT NOT NULL DEFAULT '',
    renamed_to TEXT NOT NULL DEFAULT '',
    changed INTEGER NOT NULL,
    owns_name INTEGER NOT NULL DEFAULT 0,  -- at the root, where packages have no namespace
    UNIQUE (namespace, name)
) STRICT;
CREATE UNIQUE INDEX packages_owner ON packages (name) WHERE owns_name;
CREATE UNIQUE INDEX packages_changed ON packages (changed);
CREATE INDEX packages_name ON packages (name, namespace);

-- skill is the packed skill; artifact is the digest of what is stored, uploaded that of what was sent.
CREATE TABLE versions (
    package INTEGER NOT NULL REFERENCES packages (number),
    version TEXT NOT NULL,
    artifact BLOB NOT NULL,
    uploaded BLOB NOT NULL,
    skill BLOB NOT NULL,
    published REAL NOT NULL,
    publisher TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    successor TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (package, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX versions_artifact ON versions (artifact);

-- The packages that a version requires, under their present names.
CREATE TABLE requirements (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    package INTEGER NOT NULL REFERENCES packages (number),
    version TEXT NOT NULL,
    PRIMARY KEY (namespace, name, package, version)
) STRICT, WITHOUT ROWID;

-- The bytes of artifacts; large ones are files beside the database, and have none here.
CREATE TABLE artifacts (
    number INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    content BLOB
) STRICT;

CREATE TABLE readers (
    package INTEGER NOT NULL REFERENCES packages (number),
    account TEXT NOT NULL,
    PRIMARY KEY (package, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX readers_account ON readers (account);

CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    account TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    details TEXT NOT NULL,
    address TEXT NOT NULL,
    request TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
CREATE INDEX audit_names ON audit (account) WHERE action IN ('namespace.create', 'namespace.rename');

CREATE TABLE downloads (
    package INTEGER NOT NULL REFERENCES packages (number),
    day TEXT NOT NULL,
    version TEXT NOT NULL,
    counted BLOB NOT NULL,
    PRIMARY KEY (package, day, version, counted)
) STRICT, WITHOUT ROWID;

ALTER TABLE tokens ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN used REAL;
