-- Which indexes executions have: each of those that an accepted one is in costs its caller some microseconds.
DROP INDEX executions_waiting;
DROP INDEX executions_open;
DROP INDEX executions_status;
DROP INDEX executions_digest;
-- Each index holds all that its condition names, so that no row is read that is not wanted.
-- What waits for a worker, in the order of the turns, and by whose it is: who has as much as they may is passed over.
CREATE INDEX executions_waiting ON executions (turn, not_before, executor, caller, skill, worker, completed)
    WHERE worker IS NULL AND completed IS NULL AND executor <> 'human';
CREATE INDEX executions_lanes ON executions (caller, skill, turn, executor, status, worker, completed)
    WHERE worker IS NULL AND completed IS NULL AND executor <> 'human';
-- What people are asked, in the order in which it is due.
CREATE INDEX executions_tasks ON executions (deadline, caller, skill, executor, status, worker, completed)
    WHERE executor = 'human' AND completed IS NULL;
-- What has not ended, in the order of the deadlines.
CREATE INDEX executions_open ON executions (deadline) WHERE completed IS NULL;
-- What has ended, newest last, for whoever looks for it.
CREATE INDEX executions_of_executor ON executions (executor, status) WHERE status IN ('completed', 'failed', 'timeout');
CREATE INDEX executions_of_caller ON executions (caller, status) WHERE status IN ('completed', 'failed', 'timeout');
CREATE INDEX executions_of_skill ON executions (skill, status) WHERE status IN ('completed', 'failed', 'timeout');
CREATE INDEX executions_digest ON executions (digest) WHERE completed IS NOT NULL;
-- How often its worker was lost; what loses all of its workers is not begun for ever.
ALTER TABLE executions ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
