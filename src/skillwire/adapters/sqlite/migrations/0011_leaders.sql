-- Which server does what one does for all, such as deleting what has expired. number rises with each change of the leader.
CREATE TABLE leaders (
    name TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    number INTEGER NOT NULL,
    ends REAL NOT NULL
) STRICT, WITHOUT ROWID;
