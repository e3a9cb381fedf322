-- The servers that are up: each prolongs its row, and they share the rate limits of their callers.
CREATE TABLE present_servers (
    server TEXT COLLATE "C" PRIMARY KEY,
    ends DOUBLE PRECISION NOT NULL
);
