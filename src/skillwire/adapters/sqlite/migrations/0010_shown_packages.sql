-- The packages that strangers look up. Private ones are not in it, so that the time of an answer does not show them.
CREATE UNIQUE INDEX packages_shown ON packages (namespace, name) WHERE access != 'private';
