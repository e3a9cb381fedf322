"""The check-up: each thing that can be wrong is found, with its fix, and no check stops another."""

import asyncio
import hashlib
import os
import re
import socket
import threading
import time
import tomllib
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.eventually import PATIENCE
from tests.support.free_port import free_port
from tests.support.git_server import Repository
from tests.support.opened import Blocking, open_database
from tests.support.postgres import new_database
from tests.support.raw_server import RawServer, answer, index_of

from skillwire.adapters.checks import Diagnosis, judge_secret_file, network, system
from skillwire.adapters.checks.network import judge_skew
from skillwire.adapters.dht.agent import DhtAgent
from skillwire.adapters.doctor import CHECKS, Check, examine, read_environment
from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.failing_tasks import write_failing_tasks
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sandbox.bubblewrap import Program
from skillwire.adapters.sql import read_migrations
from skillwire.errors import TrustError, UsageError
from skillwire.model.ref import InstallLocation, Lock, LockedSkill, SkillRef
from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
from skillwire.resolver.lockfile import encode_lock
from skillwire.resolver.sources import SOURCES, Source, SourceRow
from skillwire.trust.certificates import RequestedNames
from skillwire.trust.ecdsa import new_key

SHARING_INDEX = b'{"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": []}'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path, home):
    assert home
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


#: With the time that a busy machine needs: the first of all checks imports every package.
UNHURRIED = tuple(check._replace(deadline=PATIENCE) for check in CHECKS)


def look(project, environment=None, *, checks=UNHURRIED, **options):
    surroundings = read_environment(project, environment or {}, time.time(), **options)
    return examine(surroundings, checks)


def faults(sections):
    """Return everything that is not well, as ``severity: what``."""
    return [f"{row.severity}: {row.what}" for section in sections for row in section.diagnoses if row.severity != "ok"]


def said(sections, title):
    return [row.what for section in sections if section.title == title for row in section.diagnoses]


def install(project, name, *folders, links=()):
    text = f"---\nname: {name}\n---\n".encode()
    for folder in folders:
        (project / folder / name).mkdir(parents=True)
        (project / folder / name / "SKILL.md").write_bytes(text)
    files = {"SKILL.md": hashlib.sha256(text).hexdigest()}
    return LockedSkill(
        name, "path:.", "", name, None, "folder", None, "2026-01-01T00:00:00Z", ("universal",),
        InstallLocation(folders, links), files,
    )  # fmt: skip


def write_lock(project, *skills):
    (project / "skills.lock").write_bytes(encode_lock(Lock({skill.name: skill for skill in skills})))


def test_a_new_project_is_well(project):
    sections = look(project)
    assert faults(sections) == []
    titles = ["Python", "Settings", "Sandbox", "Network", "Clock", "Folders", "Cache", "Agents", "Installed skills"]
    assert [section.title for section in sections] == titles
    assert all(section.diagnoses for section in sections)
    assert not any(row.why or row.fix for section in sections for row in section.diagnoses)


class TestTheSandbox:
    def test_who_has_no_bubblewrap_needs_none(self, project, monkeypatch):
        def missing():
            raise TrustError("SANDBOX_UNAVAILABLE", "bubblewrap is not installed")

        monkeypatch.setattr(system, "find_program", missing)
        (row,) = system.check_sandbox(read_environment(project, {}, time.time()))
        assert row.severity == "ok"
        assert row.what.startswith("bubblewrap is not installed")

    def test_one_that_does_not_work_is_told_with_the_fix(self, project, monkeypatch, tmp_path):
        broken = tmp_path / "bwrap"
        broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setattr(system, "find_program", lambda: Program(str(broken), ()))
        (row,) = system.check_sandbox(read_environment(project, {}, time.time()))
        assert row.severity == "warning"
        assert "No permissions" in row.what
        assert row.fix


class TestTheRunner:
    def test_a_check_that_fails_or_hangs_is_a_finding_and_stops_no_other(self, project):
        hold = threading.Event()

        def hangs(_):
            yield Diagnosis("ok", "seen before it hung")
            hold.wait()

        def fails(_):
            yield Diagnosis("ok", "seen before it failed")
            raise UsageError("SETTING_FORM", "broken")

        def breaks(_):
            raise RuntimeError("oh")

        def works(_):
            yield Diagnosis("ok", "fine")

        limits = {hangs: 1.0, fails: PATIENCE, breaks: PATIENCE, works: PATIENCE}
        table = [Check("S", "the clock", *row) for row in limits.items()]
        try:
            (section,) = look(project, checks=table)
        finally:
            hold.set()
        assert [row.what for row in section.diagnoses] == [
            "seen before it hung",
            "the clock: no answer within 1 s",
            "seen before it failed",
            "broken [SETTING_FORM]",
            "the clock could not be looked at: RuntimeError: oh",
            "fine",
        ]

    def test_checks_run_at_once(self, project):
        together = threading.Barrier(8, timeout=PATIENCE)

        def waits(_):
            together.wait()
            yield Diagnosis("ok", "met")

        (section,) = look(project, checks=[Check("S", "x", waits, 30)] * 8)
        assert [row.what for row in section.diagnoses] == ["met"] * 8

    def test_every_problem_and_warning_has_a_reason_and_a_fix(self, project):
        (project / ".agents").write_text("")
        sections = look(project, {"HTTPS_PROXY": "socks5://x", "SKILLWIRE_SOURCES": "127.0.0.1:1 10.0.0.0/8"})
        rows = [row for section in sections for row in section.diagnoses if row.severity != "ok"]
        assert len(rows) >= 4
        assert not [row.what for row in rows if not row.why or not row.fix]


class TestSettings:
    def test_an_error_in_them_is_found_and_the_rest_goes_on(self, project):
        (project / "skillwire.toml").write_text("\nbad = 1\n")
        sections = look(project)
        assert faults(sections) == [f"problem: unknown setting 'bad' ({project}/skillwire.toml:2:1) [SETTING_FORM]"]
        assert said(sections, "Installed skills")

    def test_an_entry_of_allow_that_cannot_be_read_is_found(self, project):
        (row,) = faults(look(project, {"SKILLWIRE_ALLOW": "10.0.0.0/99"}))
        assert row.endswith("[ALLOW_ENTRY]")

    def test_an_agent_that_does_not_exist_is_found(self, project):
        assert faults(look(project, {"SKILLWIRE_AGENTS": "claud-code"})) == [
            "problem: there is no agent 'claud-code' [USAGE]"
        ]


class TestSources:
    def serve(self, *headers):
        def talk(peer):
            while b"HTTP/1.1" in peer.request():
                peer.send(answer(index_of(), "Content-Type: application/json", *headers))

        return RawServer(talk)

    def test_a_source_that_answers_is_timed_and_its_clock_compared(self, project):
        with self.serve(f"Date: {formatdate(time.time(), usegmt=True)}") as server:
            source = f"127.0.0.1:{server.port}"
            sections = look(project, {"SKILLWIRE_SOURCES": source})
        assert faults(sections) == []
        lines = said(sections, "Network")
        assert f"{source} leads to 127.0.0.1" in lines
        assert [line for line in lines if line.startswith(f"{source} lists 0 skills, ") and line.endswith(" ms")]
        assert f"the clock agrees with that of {source} within a minute" in lines

    def test_a_clock_that_is_wrong_is_found(self, project):
        with self.serve(f"Date: {formatdate(time.time() - 7200, usegmt=True)}") as server:
            (row,) = faults(look(project, {"SKILLWIRE_SOURCES": f"127.0.0.1:{server.port}"}))
        assert row.startswith("problem: the clock is 7,20")
        assert f"s ahead of that of 127.0.0.1:{server.port}" in row

    @pytest.mark.parametrize("date", ["Date: no day", "X-None: x", "Age: 3"])
    def test_an_answer_without_the_time_is_not_compared(self, project, date):
        with self.serve(date) as server:
            sections = look(project, {"SKILLWIRE_SOURCES": f"127.0.0.1:{server.port}"})
        assert faults(sections) == []
        assert not [line for line in said(sections, "Network") if "the clock" in line]

    def test_a_source_that_only_the_project_names_may_not_lead_into_this_machine(self, project):
        with self.serve() as server:
            (project / "skillwire.toml").write_text(f'sources = ["127.0.0.1:{server.port}"]\n')
            (row,) = faults(look(project, {"SKILLWIRE_TOKENS": f"http://127.0.0.1:{server.port}=hush"}))
            assert server.requests == []
        assert row.endswith("[ADDRESS_REFUSED]")

    def test_the_credential_is_used_and_named_and_not_shown(self, project):
        with self.serve() as server:
            source = f"http://127.0.0.1:{server.port}"
            sections = look(project, {"SKILLWIRE_SOURCES": source, "SKILLWIRE_TOKENS": f"{source}=hush"})
            assert b"authorization: Bearer hush" in server.requests[0]
        lines = said(sections, "Network")
        assert [line for line in lines if line.endswith("with the credential of SKILLWIRE_TOKENS")]
        assert "hush" not in repr(sections)

    def test_one_that_is_down_is_told_beside_one_that_is_not(self, project):
        with self.serve() as server:
            up = f"127.0.0.1:{server.port}"
            sections = look(project, {"SKILLWIRE_SOURCES": f"127.0.0.1:1 {up}"})
        (row,) = faults(sections)
        assert row.startswith("problem: 127.0.0.1:1: cannot connect")
        assert f"{up} leads to 127.0.0.1" in said(sections, "Network")

    def test_the_local_network_is_a_source(self, project, home):
        sections = look(project, {"SKILLWIRE_SOURCES": "lan:"})
        assert faults(sections) == []
        assert "lan: is the local network; skillwire lan lists its agents" in said(sections, "Network")
        (home / "config").mkdir(parents=True)
        off = "[discovery.udp]\nenabled = false\n[discovery.mdns]\nenabled = false\n"
        off += '[discovery.skillCenter]\nurl = "https://example.com"\n'
        (home / "config" / "skillwire.toml").write_text(off)
        (row,) = faults(look(project, {"SKILLWIRE_SOURCES": "lan:"}))
        assert row == "warning: lan: is a source, and the settings disable multicast and mDNS"

    def test_a_repository_of_this_machine_is_asked_as_git(self, project, monkeypatch):
        monkeypatch.chdir(project)
        Repository(project / "ours").skill("one").commit()
        sections = look(project, {"SKILLWIRE_SOURCES": "./ours/.git"})
        assert faults(sections) == []
        assert [line for line in said(sections, "Network") if line.startswith("./ours/.git lists 1 skills, ")]

    def test_an_origin_of_skill_sharing_alone_is_asked_for_its_index(self, project):
        def talk(peer):
            while b"HTTP/1.1" in (request := peer.request()):
                if b"/.well-known/skill-sharing" in request:
                    peer.send(answer(SHARING_INDEX, "Content-Type: application/json"))
                else:
                    peer.send(answer(status="404 Not Found"))

        with RawServer(talk) as server:
            sections = look(project, {"SKILLWIRE_SOURCES": f"127.0.0.1:{server.port}"})
        assert faults(sections) == []

    def test_a_source_of_a_program_is_asked_itself(self, project, monkeypatch):
        class Toy(Source):
            def __init__(self, context):
                pass

            def resolve(self, lookup):
                yield from ()
                return [SkillRef("one", f"toy:{lookup.url}", "Says one.", None, None, "toy", 0.0)]

        monkeypatch.setitem(SOURCES, "toy", SourceRow(Toy))
        sections = look(project, {"SKILLWIRE_SOURCES": "toy:shelf"})
        assert faults(sections) == []
        assert [line for line in said(sections, "Network") if line.startswith("toy:shelf lists 1 skills, ")]

    def test_offline_asks_nobody(self, project):
        with self.serve() as server:
            source = f"127.0.0.1:{server.port}"
            sections = look(project, {"SKILLWIRE_SOURCES": source}, offline=True)
            assert server.connections == 0
        assert f"offline: not asked are {source}" in said(sections, "Network")


class TestFiles:
    def test_an_installed_skill_is_as_the_lock_says(self, project):
        write_lock(project, install(project, "fine", ".agents/skills"))
        sections = look(project)
        assert faults(sections) == []
        assert said(sections, "Installed skills")[0] == f"1 of 1 skills are as {project}/skills.lock says"

    def test_changed_and_missing_skills_are_found(self, project):
        changed = install(project, "changed", ".agents/skills")
        missing = install(project, "missing", ".agents/skills", links=(".claude/skills",))
        write_lock(project, changed, missing)
        (project / ".agents/skills/changed/SKILL.md").write_text("edited")
        assert faults(look(project)) == [
            "problem: changed is not what the lock says",
            "problem: missing is missing in .claude/skills/missing",
        ]

    def test_a_lock_that_cannot_be_read_is_found(self, project):
        (project / "skills.lock").write_text("{")
        (row,) = faults(look(project))
        assert row.endswith("[JSON_SYNTAX]")

    def test_what_a_killed_command_left_is_found(self, project):
        (project / ".claude/skills/.skillwire-staging-1a").mkdir(parents=True)
        (project / ".agents/skills/.skillwire-kept-1a").mkdir(parents=True)
        assert faults(look(project)) == [
            f"problem: {project}/.agents/skills/.skillwire-kept-1a holds skills of yours",
            f"warning: {project}/.claude/skills/.skillwire-staging-1a is left of a change",
        ]

    def test_a_link_to_nothing_and_a_folder_that_leads_out_are_found(self, project, tmp_path):
        (project / ".agents/skills").mkdir(parents=True)
        (project / ".agents/skills/gone").symlink_to("../nothing")
        assert faults(look(project)) == ["problem: .agents/skills/gone is a link to nothing"]
        (project / ".claude").symlink_to(tmp_path / "home")
        (tmp_path / "home").mkdir(exist_ok=True)
        assert [row for row in faults(look(project)) if row.endswith("[FOLDER_OUTSIDE]")]

    def test_a_file_in_the_way_is_found(self, project, home):
        home.write_text("")
        rows = faults(look(project))
        assert f"problem: the folder of cache, {home}/cache: {home} is not a folder" in rows

    def test_a_folder_that_cannot_be_written_is_found(self, project, monkeypatch):
        (project / ".agents").mkdir()
        may = os.access  # asked for by name, since root may write everywhere
        monkeypatch.setattr(os, "access", lambda path, mode: path != project / ".agents" and may(path, mode))
        assert faults(look(project)) == [f"problem: .agents/skills: {project}/.agents cannot be written"]

    @pytest.mark.parametrize("free", [{"f_bavail": 10}, {"f_favail": 0}])
    def test_a_full_disk_is_found(self, project, home, monkeypatch, free):
        disk = {"f_bavail": 10**9, "f_frsize": 4096, "f_files": 10**6, "f_favail": 10**6, **free}
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**disk))
        rows = faults(look(project))
        assert any(row.startswith(f"problem: the folder of state, {home}/state: the disk is full") for row in rows)

    def test_a_damaged_database_of_a_server_is_found(self, project):
        database = open_database()
        database.version()
        database.close()
        assert faults(look(project)) == []
        content = bytearray(database.path.read_bytes())
        content[100:8000] = b"x" * 7900
        database.path.write_bytes(content)
        (row,) = faults(look(project))
        assert row.startswith("problem: ")
        assert row.endswith(f"({database.path}) [DATABASE]")

    def test_a_large_database_is_read_for_a_while(self, project, monkeypatch):
        open_database().version()
        monkeypatch.setattr(system, "check_integrity", lambda *_: False)
        assert f"{open_database().path} is large; only a part of it was read" in said(look(project), "Folders")

    def test_what_fails_in_a_running_server_is_found(self, project, home):
        write_failing_tasks({"ledger": "DATABASE"})
        (home / "state" / "failing" / "999999999.json").write_text('{"claims": "DATABASE"}')  # no such process
        (row,) = faults(look(project))
        assert row == f"problem: the server or worker with process {os.getpid()} has failing tasks: ledger (DATABASE)"
        write_failing_tasks({})
        assert faults(look(project)) == []
        assert not (home / "state" / "failing" / f"{os.getpid()}.json").exists()

    def test_a_shared_database_is_asked_for_its_schema(self, project, postgres_url):
        rows = said(look(project, store=postgres_url), "Folders")
        newest = read_migrations("skillwire.adapters.postgres")[-1].name
        assert rows[-1] == f"its schema is that of this version, {newest}"
        assert re.fullmatch(r"postgresql://\S* answers: PostgreSQL \d+\S*, \d+ ms", rows[-2])
        assert said(look(project, store=postgres_url, offline=True), "Folders")[-1].endswith(" is not asked")
        with new_database() as empty:
            for _ in range(2):  # for nothing was changed
                rows = said(look(project, store=empty), "Folders")
                assert rows[-1] == "it has no schema yet; the first server creates it"

    def test_a_shared_database_of_an_older_version_is_found(self, project):
        with new_database() as url:
            first, *more = read_migrations("skillwire.adapters.postgres")
            Blocking(PostgresDatabase(url, migrations=[first])).migrate()
            (row,) = faults(look(project, store=url))
            assert row == f"warning: its schema ends with {first.name}; this version has {len(more)} more steps"

    @pytest.mark.parametrize(
        ("url", "found"),
        [
            ("postgresql://ann:secret@127.0.0.1:1/skills", "the shared database fails: Connection refused"),
            ("mysql://127.0.0.1/skills", "'mysql' is no kind of store"),
        ],
    )
    def test_a_shared_database_that_cannot_be_used_is_found(self, project, monkeypatch, url, found):
        monkeypatch.setenv("SKILLWIRE_STORE", url)
        (row,) = faults(look(project))
        assert row.startswith(f"problem: {found}")
        assert "secret" not in row

    def test_a_netrc_that_others_can_read_is_found(self, project, tmp_path):
        netrc = tmp_path / "netrc"
        netrc.write_text("machine a.example login a password hush\n")
        netrc.chmod(0o644)
        assert faults(look(project, {"NETRC": str(netrc)})) == [f"problem: {netrc} is open to others (0644)"]
        netrc.chmod(0o600)
        assert faults(look(project, {"NETRC": str(netrc)})) == []

    def test_what_the_cache_cannot_give_back_is_found(self, project, home):
        good = b"hello"
        digest = hashlib.sha256(good).hexdigest()
        for path, content in (
            (f"blobs/{digest[:2]}/{digest[2:]}", good),
            ("blobs/ab/cd", b"other bytes"),
            ("responses/ab/cd", b'{"size": 5}\nhell'),
            ("responses/ab/ce", b'{"size": 5}\nhello'),
        ):
            file = home / "cache" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        sections = look(project)
        assert said(sections, "Cache")[0].startswith("2 answers and 2 files in 0.0 MiB")
        assert faults(sections) == [f"warning: 2 of them cannot be used, such as {home}/cache/responses/ab/cd"]

    def test_a_file_from_the_future_and_a_damaged_memory_are_found(self, project, home):
        memory = home / "state" / "origins.json"
        memory.parent.mkdir(parents=True)
        memory.write_text("[]")
        os.utime(memory, (time.time() + 90_000,) * 2)
        rows = faults(look(project))
        assert rows[0].startswith(f"warning: {memory} is from ")
        assert rows[1].endswith("[STATE_FORM]")

    def test_the_agents_in_use_are_named(self, project):
        (project / ".claude").mkdir()
        (project / ".codex").mkdir()
        lines = said(look(project), "Agents")
        assert lines[0] == "agents found: claude-code, codex"
        assert ".claude/skills: not there yet, can be made" in lines

    def test_the_users_own_skills_are_looked_at_on_request(self, home):
        assert home
        own = Path(os.environ["HOME"])
        (own / ".agents").mkdir()
        (own / ".agents" / "skills.lock").write_text("{")
        (row,) = faults(look(own, for_user=True))
        assert row.endswith("[JSON_SYNTAX]")


def _parts():
    return list(system.check_installed_parts(None))  # type: ignore[arg-type]  # it looks at nothing of the surroundings


def test_every_package_that_we_require_is_told_with_what_it_is_for():
    told = [row.what.partition(": ") for row in _parts()]
    assert ("check and build", ": ", "deflate, jsonschema-rs, msgspec, pyyaml") in told
    listed = {name for _, _, names in told for name in names.split(", ")}
    wanted = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[^\w.-]", requirement)[0] for requirement in wanted} <= listed


def test_a_package_that_is_damaged_is_found(monkeypatch):
    def import_module(name):
        raise ImportError(f"cannot load {name}")

    monkeypatch.setattr("importlib.import_module", import_module)
    rows = {row.what: row for row in _parts()}
    row = rows["check and build: msgspec cannot be used"]
    assert (row.severity, row.why) == ("problem", "ImportError: cannot load msgspec.")


def test_a_package_that_is_absent_is_a_problem_unless_it_is_optional(monkeypatch):
    required = ["msgspec>=0.19", "absent>=1", 'extra-part>=1; extra == "more"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: required)
    rows = {row.what: row.severity for row in _parts()}
    assert rows == {
        "the server: absent cannot be used": "problem",
        "the server, optional and not installed: extra-part": "ok",
        "check and build: msgspec": "ok",
    }


@pytest.mark.parametrize(
    ("seconds", "severity", "text"),
    [
        (0, "ok", "agrees"),
        (-59, "ok", "agrees"),
        (61, "warning", "61 s ahead of"),
        (-4000, "problem", "4,000 s behind"),
    ],
)
def test_a_clock_is_judged_by_its_distance(seconds, severity, text):
    judged = judge_skew(seconds, "a.example")
    assert judged.severity == severity
    assert text in judged.what


def test_a_proxy_is_named_and_its_password_is_not(project):
    variables = {"https_proxy": "http://me:hush@px:3128", "ALL_PROXY": "socks5://x", "HTTP_PROXY": ""}
    (row,) = network.check_proxies(read_environment(project, variables, time.time()))
    assert (row.severity, row.what) == ("ok", "https_proxy names the proxy px:3128, which resolves names")
    assert "hush" not in repr(row)


@pytest.mark.parametrize(
    ("entry", "severity"), [("10.0.0.0/8", "ok"), ("0.0.0.0/0", "warning"), ("::/7", "warning"), ("nas.lan", "ok")]
)
def test_a_wide_opening_is_a_warning(project, entry, severity):
    environment = read_environment(project, {"SKILLWIRE_ALLOW": entry}, time.time())
    assert [row.severity for row in network.check_policy(environment)] == [severity]


@pytest.mark.parametrize(("mode", "severity"), [(0o600, "ok"), (0o640, "problem"), (0o602, "problem")])
def test_permissions_for_others_are_a_problem(tmp_path, mode, severity):
    secret = tmp_path / "credentials.json"
    secret.touch()
    secret.chmod(mode)
    assert judge_secret_file(secret).severity == severity


class TestLocalNetwork:
    CHECKS = (Check("Network", "the local network", network.check_lan, PATIENCE),)

    def look(self, project, home, text=""):
        (home / "config").mkdir(parents=True, exist_ok=True)
        (home / "config" / "skillwire.toml").write_text(text)
        return look(project, checks=self.CHECKS)

    def test_a_key_of_the_settings_that_does_not_exist_is_found_once(self, project, home):
        (home / "config").mkdir(parents=True)
        (home / "config" / "skillwire.toml").write_text('[discovery.trust]\nroot = ["root.pem"]\n')
        dht = Check("Network", "the DHT", network.check_dht)
        (section,) = look(project, checks=[*self.CHECKS, dht])
        (row,) = section.diagnoses
        assert row.what.startswith("unknown key 'root' (")
        assert row.fix == "Did you mean roots?"

    def test_a_file_that_the_settings_name_and_that_is_missing_is_found(self, project, home):
        (row,) = faults(self.look(project, home, '[discovery.trust]\nroots = ["root.pem"]\n'))
        assert "config/root.pem: it cannot be read" in row

    def test_the_certificate_of_this_machine_is_judged(self, project, home):
        now = time.time()
        ca = AuthorityFolder.create(project / "ca", "Test", now - 10 * 86_400)
        text = f'[discovery.trust]\nroots = ["{ca.root_file}"]\nintermediates = ["{ca.center_file}"]\n'
        text += f'revocations = ["{ca.revocations_file}"]\n'
        assert self.look(project, home, text)[0].diagnoses[0].severity == "ok"
        keys, names = LanKeys(), RequestedNames(("office",))
        assert not keys.key_file.exists(), "nothing is made"
        for days, said in ((-8, "the certificate of office has ended at"), (0, "")):
            keys.keep_certificate(ca.issue(names, keys.key().public_key(), now + days * 86_400))
            assert [said in row for row in faults(self.look(project, home, text))] == [True] * bool(said)
        ca.revoke("office", now)
        (row,) = faults(self.look(project, home, text))
        assert "was revoked" in row
        keys.keep_key(new_key())
        keys.keep_certificate(ca.issue(RequestedNames(("other",)), new_key().public_key(), now))
        (row,) = faults(self.look(project, home, text))
        assert "the certificate of other is for another key" in row

    def test_the_certificate_of_the_second_agent_is_judged_as_well(self, project, home):
        now = time.time()
        ca = AuthorityFolder.create(project / "ca", "Test", now - 86_400)
        first, second = LanKeys(), LanKeys(LanKeys().folder / "agents" / "office-2")
        for name, keys in (("office", first), ("office-2", second)):
            keys.keep_certificate(ca.issue(RequestedNames((name,)), keys.key().public_key(), now))
        ca.revoke("office-2", now)
        text = f'[discovery.trust]\nroots = ["{ca.root_file}"]\nintermediates = ["{ca.center_file}"]\n'
        (section,) = self.look(project, home, f'{text}revocations = ["{ca.revocations_file}"]\n')
        (row,) = (one for one in section.diagnoses if one.severity != "ok")
        assert row.what.startswith("the certificate of office-2, or the SkillCenter CA that issued it, was revoked")
        assert row.fix == "skillwire key new --replace --agent office-2, and have the key certified."

    def test_the_authority_that_renews_the_certificate_is_asked_what_it_has_revoked(self, project, home):
        now = time.time()
        ca = AuthorityFolder.create(project / "ca", "Test", now - 86_400)
        keys = LanKeys()
        keys.keep_certificate(ca.issue(RequestedNames(("office",)), keys.key().public_key(), now))
        status = ["200 OK"]

        def talk(peer):
            assert b"GET /lan/revocations " in peer.request()
            peer.send(answer(ca.revocations_file.read_bytes(), status=status[0]))

        with RawServer(talk) as server:
            text = f'[discovery.trust]\nroots = ["{ca.root_file}"]\nintermediates = ["{ca.center_file}"]\n'
            text += f'renewFrom = "http://127.0.0.1:{server.port}"\n'
            assert faults(self.look(project, home, text)) == []
            ca.revoke("office", now)
            (row,) = faults(self.look(project, home, text))
            assert "was revoked" in row
            status[0] = "503 Service Unavailable"
            (row,) = faults(self.look(project, home, text))
            assert row.startswith("warning: the list of revoked certificates is not read: ")
        assert keys.revocations() == b"", "nothing is kept"

    def test_the_lists_of_revoked_certificates_are_read_at_once(self, project, home, monkeypatch):
        monkeypatch.setattr(network, "_PING_SECONDS", 60.0)
        now = time.time()
        ca = AuthorityFolder.create(project / "ca", "Test", now - 86_400)
        keys = LanKeys()
        keys.keep_certificate(ca.issue(RequestedNames(("office",)), keys.key().public_key(), now))
        all_asked = threading.Barrier(3)

        def talk(peer):
            peer.request()
            with suppress(threading.BrokenBarrierError):
                all_asked.wait(PATIENCE)
                peer.send(answer(ca.revocations_file.read_bytes()))

        with RawServer(talk) as first, RawServer(talk) as second, RawServer(talk) as third:
            urls = ", ".join(f'"http://127.0.0.1:{one.port}/list"' for one in (first, second, third))
            text = f'[discovery.trust]\nroots = ["{ca.root_file}"]\nintermediates = ["{ca.center_file}"]\n'
            assert faults(self.look(project, home, f"{text}revocations = [{urls}]\n")) == []


@pytest.mark.parametrize("others", ["", '{ host = "127.0.0.1", port = 9 }'])
def test_the_bootstrap_nodes_of_the_dht_are_asked_and_their_silence_is_a_warning(project, home, others, monkeypatch):
    monkeypatch.setattr(network, "_PING_SECONDS", 0.3)
    port = free_port(socket.SOCK_DGRAM)
    ours = f'{{ host = "127.0.0.1", port = {port} }}'
    (home / "config").mkdir(parents=True)
    nodes = f"bootstrapNodes = [{ours}{others and ', '}{others}]\nenabled = true\n"
    (home / "config" / "skillwire.toml").write_text(f"[discovery.dht]\n{nodes}")
    checks = [Check("Network", "the DHT", network.check_dht)]
    listed = f"127.0.0.1:{port}{others and ', 127.0.0.1:9'}"
    assert faults(look(project, checks=checks)) == [f"warning: no bootstrap node of the DHT answers: {listed}"]
    assert not (home / "state" / "lan").exists(), "it leaves no key behind"
    assert look(project, checks=checks, offline=True)[0].diagnoses == ()
    monkeypatch.setattr(network, "_PING_SECONDS", 3.0)  # for one that answers, however busy the machine is
    found = LanSettings(dht=DhtSettings(port=port, bind=("127.0.0.1",)))
    with running(DhtAgent(found)):
        sections = look(project, checks=checks)
        assert said(sections, "Network") == [f"the bootstrap node 127.0.0.1:{port} of the DHT answers"]
        assert faults(sections) == []


@contextmanager
def running(agent):
    """Run a node in a thread of its own."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def run():
        async with agent:
            ended.append(asyncio.Event())
            ready.set()
            await ended[0].wait()

    ended: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(PATIENCE)
    yield
    loop.call_soon_threadsafe(ended[0].set)
    thread.join(PATIENCE)
    loop.close()
