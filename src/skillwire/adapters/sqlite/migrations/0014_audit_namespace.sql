-- The namespace of an audit entry follows from its target, which the chain protects: a column of its own could be changed
-- unseen, and hid the entry from the owners.
DROP INDEX audit_namespace;
ALTER TABLE audit DROP COLUMN namespace;
ALTER TABLE audit ADD COLUMN namespace TEXT GENERATED ALWAYS AS (
    CASE WHEN substr(action, 1, 8) = 'account.' OR substr(action, 1, 6) = 'token.' THEN ''
    ELSE substr(target, 1, instr(target || '/', '/') - 1) END
) VIRTUAL;
CREATE INDEX audit_namespace ON audit (namespace, number);
