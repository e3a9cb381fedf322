-- What servers of one database have to agree on: their key, signed requests that count once, and unfinished uploads.
CREATE TABLE server_key (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    digest BYTEA NOT NULL
);

CREATE TABLE used_signatures (
    digest BYTEA PRIMARY KEY,
    ends DOUBLE PRECISION NOT NULL
);
CREATE INDEX used_signatures_ends ON used_signatures (ends);

CREATE TABLE uploads (
    account TEXT COLLATE "C" NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    held BIGINT NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (account, number)
);
CREATE INDEX uploads_expires ON uploads (expires);

CREATE TABLE upload_pieces (
    account TEXT COLLATE "C" NOT NULL,
    number TEXT COLLATE "C" NOT NULL,
    start BIGINT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (account, number, start),
    FOREIGN KEY (account, number) REFERENCES uploads ON DELETE CASCADE
);
