-- The namespace of an audit entry follows from its target, which the chain protects: a column of its own could be changed
-- unseen, and hid the entry from the owners.
ALTER TABLE audit DROP COLUMN namespace;
ALTER TABLE audit ADD COLUMN namespace TEXT COLLATE "C" GENERATED ALWAYS AS (
    CASE WHEN action LIKE 'account.%' OR action LIKE 'token.%' THEN '' ELSE split_part(target, '/', 1) END
) STORED;
CREATE INDEX audit_namespace ON audit (namespace, number);
