-- Files that clients send to a registry one by one, each for a ticket, until they are published together.
CREATE TABLE announced_files (
    ticket TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    ends REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX announced_files_ends ON announced_files (ends);
CREATE INDEX announced_files_account ON announced_files (account);
