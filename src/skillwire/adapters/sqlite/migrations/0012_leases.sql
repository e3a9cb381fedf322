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

-- What was accepted and what ended, in the order of the commits; settled says up to where no open transaction precedes a row.
CREATE VIEW arrivals AS SELECT number, number AS accepted_in, created FROM executions;
CREATE VIEW endings AS SELECT completed AS place, number, completed, status, failure, created, timeline
    FROM executions INDEXED BY executions_ended WHERE completed IS NOT NULL;
CREATE VIEW settled AS
    SELECT coalesce(max(number), 0) + 1 AS accepted_before, 9e999 AS ended_before FROM executions;
