-- What an execution is given beside its inputs, and what comes of it beside its output; the first and the last are JSON.
ALTER TABLE executions ADD COLUMN attachments TEXT;
ALTER TABLE executions ADD COLUMN log TEXT;
ALTER TABLE executions ADD COLUMN blobs TEXT;

-- The skills whose files an execution finds beside its own; their versions are kept as that of its skill is.
CREATE TABLE run_mounts (
    digest TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (digest, execution_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_mounts_execution ON run_mounts (execution_id);

-- Blobs of those who have skills executed. The bytes are files, named by their digest; whose they are stands here alone.
CREATE TABLE run_blobs (
    owner TEXT NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER NOT NULL,
    expires REAL NOT NULL,
    PRIMARY KEY (owner, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_blobs_digest ON run_blobs (digest);
CREATE INDEX run_blobs_expires ON run_blobs (expires);
CREATE INDEX run_blobs_size ON run_blobs (size);
