-- What lists and numbers of a registry select by. audit.namespace follows a renamed namespace, and is no part of the chain.
ALTER TABLE artifacts ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE artifacts SET size = ifnull(length(content), 0);

ALTER TABLE audit ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
UPDATE audit SET namespace = substr(target, 1, instr(target || '/', '/') - 1)
    WHERE action NOT LIKE 'account.%' AND action NOT LIKE 'token.%';
CREATE INDEX audit_namespace ON audit (namespace, number);
