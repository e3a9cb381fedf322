"""PostgreSQL for several servers: needs the extra ``postgres``."""
