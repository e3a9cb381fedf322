-- Sessions of the console that were ended by signing out, until they would have ended anyway.
CREATE TABLE ended_sessions (
    number TEXT PRIMARY KEY,
    ends REAL NOT NULL
) STRICT, WITHOUT ROWID;
