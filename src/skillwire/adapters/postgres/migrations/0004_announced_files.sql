-- Files that clients send to a registry one by one, each for a ticket, until they are published together.
CREATE TABLE announced_files (
    ticket TEXT COLLATE "C" PRIMARY KEY,
    account TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    ends DOUBLE PRECISION NOT NULL
);
CREATE INDEX announced_files_ends ON announced_files (ends);
CREATE INDEX announced_files_account ON announced_files (account);
