-- The ledger of executions: the one truth about what was accepted. Times are seconds since the epoch, but lease_until,
-- which is seconds since the start of the machine that lease_boot names.
CREATE TABLE executions (
    number INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL UNIQUE,
    skill TEXT NOT NULL,
    skill_id TEXT NOT NULL,
    version TEXT NOT NULL,
    digest TEXT NOT NULL,
    executor TEXT NOT NULL CHECK (executor IN ('python', 'http', 'human', 'function')),
    caller TEXT NOT NULL,
    caller_id TEXT NOT NULL,
    caller_type TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    deadline REAL NOT NULL,
    timeout REAL NOT NULL,
    turn REAL NOT NULL,
    priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
    status TEXT NOT NULL CHECK (status IN ('accepted', 'running', 'completed', 'failed', 'timeout')),
    trace_id TEXT,
    attempt INTEGER NOT NULL,
    worker TEXT,
    not_before REAL NOT NULL,
    max_attempts INTEGER NOT NULL,
    backoff REAL NOT NULL,
    is_repeatable INTEGER NOT NULL,
    completed REAL,
    output_blob TEXT,
    output_forgotten INTEGER NOT NULL,
    failure TEXT,
    webhook TEXT,
    callbacks INTEGER NOT NULL,
    callback_at REAL,
    lease_until REAL,
    lease_boot TEXT,
    timeline TEXT NOT NULL,
    task BLOB,
    inputs BLOB NOT NULL,
    output BLOB
) STRICT;
-- What waits for a worker, in the order of the turns; with all that a claim asks about.
CREATE INDEX executions_waiting ON executions (turn, not_before, executor, caller, skill)
    WHERE worker IS NULL AND status IN ('accepted', 'running');
-- What a worker has.
CREATE INDEX executions_held ON executions (executor, caller, skill, lease_boot, lease_until)
    WHERE worker IS NOT NULL AND status = 'running';
-- What has not ended, in the order of the deadlines; with whose it is, since they are counted.
CREATE INDEX executions_open ON executions (deadline, caller) WHERE status IN ('accepted', 'running');
-- What has ended, and what of it has an output, in the order in which they are forgotten.
CREATE INDEX executions_ended ON executions (completed) WHERE completed IS NOT NULL;
CREATE INDEX executions_output ON executions (completed) WHERE status = 'completed' AND output_forgotten = 0;
CREATE INDEX executions_status ON executions (status);
CREATE INDEX executions_digest ON executions (digest);
CREATE INDEX executions_output_blob ON executions (output_blob) WHERE output_blob IS NOT NULL;
CREATE INDEX executions_callback ON executions (callback_at) WHERE callback_at IS NOT NULL;

-- What a caller named a request, so that the same request makes one execution; known as long as that. body is a digest.
CREATE TABLE idempotency_keys (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_execution ON idempotency_keys (execution_id);

-- The skills of executions, as they were published when those were accepted.
CREATE TABLE skill_versions (
    digest TEXT PRIMARY KEY,
    skill BLOB NOT NULL
) STRICT, WITHOUT ROWID;
