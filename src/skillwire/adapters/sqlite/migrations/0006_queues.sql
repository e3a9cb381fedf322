-- Whose workers run an execution: those of the server that accepted it, by the name of its configuration.
ALTER TABLE executions ADD COLUMN queue TEXT NOT NULL DEFAULT '';
-- As before, but for the queue: what waits for the workers of others is no row that a claim reads.
DROP INDEX executions_waiting;
DROP INDEX executions_lanes;
CREATE INDEX executions_waiting ON executions (queue, turn, not_before, executor, caller, skill, worker, completed)
    WHERE worker IS NULL AND completed IS NULL AND executor <> 'human';
CREATE INDEX executions_lanes ON executions (caller, skill, queue, turn, executor, status, worker, completed)
    WHERE worker IS NULL AND completed IS NULL AND executor <> 'human';
DROP INDEX executions_callback;
CREATE INDEX executions_callback ON executions (queue, callback_at) WHERE callback_at IS NOT NULL;
