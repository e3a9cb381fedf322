"""The skills of executions in SQLite: an execution runs what was published when it was accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.adapters.files.skill_rows import pack_skill, unpack_skill

if TYPE_CHECKING:
    from skillwire.adapters.sqlite.database import Database
    from skillwire.model.skill import Skill


class SqliteSkillVersions:
    """Fills :class:`skillwire.ports.SkillVersions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, skill: Skill) -> None:
        """Keep a skill by its artifact's digest."""
        with self._database.writing() as connection:
            row = (str(skill.artifact.digest), pack_skill(skill))
            connection.execute("INSERT OR IGNORE INTO skill_versions VALUES (?, ?)", row)

    def find(self, digest: str) -> Skill | None:
        """Return the skill whose artifact has this digest."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT skill FROM skill_versions WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else unpack_skill(row[0])

    def needed(self) -> list[Skill]:
        """Return the skills of executions that have not ended."""
        is_open = "FROM executions INDEXED BY executions_open WHERE completed IS NULL"
        mounted = f"SELECT digest FROM run_mounts WHERE execution_id IN (SELECT execution_id {is_open})"  # noqa: S608  # a constant
        query = f"SELECT skill FROM skill_versions WHERE digest IN (SELECT digest {is_open} UNION {mounted})"  # noqa: S608  # same
        with self._database.reading() as connection:
            rows = connection.execute(query)
            return [unpack_skill(row[0]) for row in rows]
