-- The leases of workers. The lease of a claim ends with that of its worker where lease_boot is NULL and lease_until 0.
CREATE TABLE worker_leases (
    worker TEXT PRIMARY KEY,
    boot TEXT NOT NULL,
    ends REAL NOT NULL
) STRICT, WITHOUT ROWID;
DROP INDEX executions_held;
CREATE INDEX executions_held
    ON executions (lease_boot, lease_until, worker, attempt, execution_id, executor, caller, skill)
    WHERE worker IS NOT NULL AND status = 'running';
