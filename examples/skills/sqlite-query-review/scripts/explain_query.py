#!/usr/bin/env python3
"""Shows the query plans of SQL statements against a SQLite database, and what in them is likely to be slow.

The database is opened read-only, and every statement is prefixed with EXPLAIN QUERY PLAN, which SQLite plans
and does not run.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

# Others have no plan, and some PRAGMAs act while they are planned.
PLANNED = re.compile(
    r"(?:EXPLAIN\s+(?:QUERY\s+PLAN\s+)?)?(?P<sql>(?:SELECT|WITH|VALUES|INSERT|REPLACE|UPDATE|DELETE)\b.*)",
    re.DOTALL | re.IGNORECASE,
)
RANK = ["automatic-index", "correlated-subquery", "full-scan", "temp-sort", "index-scan"]
SCAN = re.compile(
    r"SCAN (?:TABLE )?(?P<table>\S+)(?: AS (?P<alias>\S+))?(?P<index> USING (?:COVERING )?INDEX (?P<name>\S+))?"
)
LEADING = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*", re.DOTALL)


class Refused(Exception):
    """Nothing can be planned; the message says why."""


class Nulls(dict):
    """Gives every named parameter the value NULL."""

    def __missing__(self, key: str) -> None:
        """Return NULL."""


class Line(NamedTuple):
    """A line of a plan. ``inner`` when it runs once for each row of another line."""

    depth: int
    text: str
    inner: bool


def connect(path: Path) -> sqlite3.Connection:
    """Open a database for reading only."""
    if not path.is_file():
        raise Refused(f"no such file: {path}")
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.DatabaseError as error:
        raise Refused(f"{path}: {error}") from error
    return connection


def statements(text: str) -> list[str]:
    """Split a script into statements, minding strings, comments and triggers as SQLite does."""
    found, current = [], ""
    for piece in re.split(r"(?<=;)", text):
        current += piece
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    found.append(current.strip())
    return [bare for statement in found if (bare := LEADING.sub("", statement, count=1).strip().rstrip(";").strip())]


def plan(connection: sqlite3.Connection, statement: str) -> list[Line]:
    """Return the plan of a statement, its parameters bound to NULL."""
    planned = PLANNED.fullmatch(statement)
    if not planned:
        raise Refused(
            f"{shortened(statement)}: only SELECT, WITH, VALUES, INSERT, REPLACE, UPDATE and DELETE have a plan"
        )
    sql = f"EXPLAIN QUERY PLAN {planned['sql']}"
    try:
        rows = connection.execute(sql, Nulls()).fetchall() if "?" not in sql else numbered(connection, sql)
    except sqlite3.Error as error:
        raise Refused(f"{shortened(statement)}: {error}") from error
    return tree(rows)


def numbered(connection: sqlite3.Connection, sql: str) -> list[tuple]:
    """Plan a statement with ``?`` parameters. Only trying tells how many there are, as a ``?`` may stand in a text."""
    for count in range(sql.count("?"), 0, -1):
        try:
            return connection.execute(sql, (None,) * count).fetchall()
        except sqlite3.ProgrammingError:
            continue  # another number of parameters
    return connection.execute(sql, Nulls()).fetchall()


def tree(rows: list[tuple]) -> list[Line]:
    """Order the rows of a plan as a tree, and note which lines are inner loops."""
    children: dict[int, list[tuple[int, str]]] = {}
    for identity, parent, _, text in rows:
        children.setdefault(parent, []).append((identity, text))
    lines: list[Line] = []

    def walk(parent: int, depth: int, *, inside: bool) -> None:
        loops = 0
        for identity, text in children.get(parent, []):
            loop = text.startswith(("SCAN", "SEARCH"))
            lines.append(Line(depth, text, inner=inside or (loop and loops > 0)))
            walk(identity, depth + 1, inside=inside or text.startswith("CORRELATED"))
            loops += loop

    walk(0, 0, inside=False)
    return lines


def rows_of(connection: sqlite3.Connection, table: str) -> int | None:
    """Return about how many rows a table has, or None when that is not cheap to know."""
    try:
        return connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {quoted(table)}").fetchone()[0]
    except sqlite3.Error:
        return None  # a view, a subquery's name, or a table WITHOUT ROWID


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def tables_of(connection: sqlite3.Connection, statement: str) -> dict[str, str]:
    """Map each word of a statement that follows a table's name to that table, so that an alias finds it."""
    names = {
        row[0].lower(): row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    found = dict(names)
    for table, alias in re.findall(r"\b(?=(\w+)[\"'`\]]?\s+(?:AS\s+)?(\w+))", statement, re.IGNORECASE):
        if table.lower() in names:
            found.setdefault(alias.lower(), names[table.lower()])
    return found


def findings(connection: sqlite3.Connection, statement: str, lines: list[Line]) -> list[dict]:
    """Return what in a plan is likely to be slow, worst first."""
    tables = tables_of(connection, statement)
    found = []
    for line in lines:
        scan = SCAN.match(line.text)
        if "AUTOMATIC" in line.text:
            found.append(finding("automatic-index", line, "an index is built for this query and thrown away"))
        elif line.text.startswith("CORRELATED"):
            found.append(finding("correlated-subquery", line, "runs once for every outer row"))
        elif line.text.startswith("USE TEMP B-TREE"):
            found.append(finding("temp-sort", line, "collects rows in a temporary tree"))
        elif scan and scan["table"] != "CONSTANT" and not scan["table"].isdigit():
            table = tables.get(scan["table"].lower())
            rows = rows_of(connection, table) if table else None
            size = f"about {rows} rows of {table}" if rows is not None else f"all rows of {scan['table']}"
            times = ", again for each row of an outer loop" if line.inner else ""
            found.append(finding("index-scan" if scan["index"] else "full-scan", line, f"reads {size}{times}"))
    return sorted(found, key=lambda item: (RANK.index(item["code"]), not item["inner"]))


def finding(code: str, line: Line, message: str) -> dict:
    """Return one finding."""
    return {"code": code, "line": line.text, "inner": line.inner, "message": message}


def schema(connection: sqlite3.Connection) -> list[dict]:
    """Return every table with its size and its indexes."""
    tables = []
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    ).fetchall():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(name)})")]
        indexes = []
        for row in connection.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
            parts = [part[2] or "(expression)" for part in connection.execute(f"PRAGMA index_info({quoted(row[1])})")]
            indexes.append({"name": row[1], "columns": parts, "unique": bool(row[2]), "partial": bool(row[4])})
        tables.append({"table": name, "rows": rows_of(connection, name), "columns": columns, "indexes": indexes})
    return tables


def shortened(text: str) -> str:
    """Return a statement on one line of at most 100 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else flat[:97] + "..."


def show_plans(plans: list[dict]) -> str:
    """Return plans as text for a person."""
    out = []
    for item in plans:
        out += [shortened(item["statement"]), *(f"  {'  ' * line['depth']}{line['text']}" for line in item["plan"])]
        out += [f"  !! {found['code']}: {found['line']}: {found['message']}" for found in item["findings"]]
        out += ["" if item["findings"] else "  nothing stands out\n"]
    return "\n".join(out).rstrip()


def show_schema(tables: list[dict]) -> str:
    """Return the tables as text for a person."""
    out = []
    for table in tables:
        rows = "size unknown" if table["rows"] is None else f"about {table['rows']} rows"
        out.append(f"{table['table']} ({', '.join(table['columns'])}): {rows}")
        for index in table["indexes"]:
            kind = f"{'unique ' if index['unique'] else ''}{'partial ' if index['partial'] else ''}index"
            out.append(f"  {kind} {index['name']} on {', '.join(index['columns'])}")
    return "\n".join(out)


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="explain_query.py", description="Show and judge SQLite query plans.")
    parser.add_argument("database", type=Path, help="the database file; it is opened read-only")
    parser.add_argument("sql", nargs="?", help="the statement, or several with semicolons")
    parser.add_argument("--file", type=Path, metavar="SQL", help="read the statements from a file")
    parser.add_argument("--schema", action="store_true", help="show tables, sizes and indexes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(options: argparse.Namespace) -> str:
    """Do what was asked; return what to print."""
    connection = connect(options.database)
    try:
        if options.schema:
            tables = schema(connection)
            return json.dumps(tables, indent=2) if options.json else show_schema(tables)
        text = options.file.read_text(encoding="utf-8") if options.file else options.sql
        plans = []
        for statement in statements(text):
            lines = plan(connection, statement)
            found = findings(connection, statement, lines)
            plans.append({"statement": statement, "plan": [line._asdict() for line in lines], "findings": found})
        if not plans:
            raise Refused("there is no statement to plan")
        return json.dumps(plans, indent=2) if options.json else show_plans(plans)
    finally:
        connection.close()


def main() -> int:
    """Run the command line; return the exit code."""
    parser = arguments()
    options = parser.parse_intermixed_args()
    if sum((bool(options.sql), bool(options.file), options.schema)) != 1:
        parser.error("say one of SQL, --file and --schema")
    try:
        print(run(options))
    except Refused as error:
        print(f"explain_query.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"explain_query.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
