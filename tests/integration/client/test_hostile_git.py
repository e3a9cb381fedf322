"""Hostile references, repositories and servers: nothing is written outside of the skill, and no command is run.

Each case names a canary file that its payload would make. The only program that may start is git's upload-pack, for a
repository of this machine.
"""

import os
import random
import stat
import struct
import subprocess
import zlib
from itertools import product
from pathlib import Path

import pytest
from tests.support.git_packs import head
from tests.support.git_server import GitServer, Repository, skill_md

from skillwire import Client
from skillwire.errors import FetchError, SkillwireError
from skillwire.resolver.sources import git as git_source
from skillwire.trust.git_objects import object_id

pytestmark = pytest.mark.deep

TOUCH = "touch CANARY"
HOSTS = (
    "owner/repo",
    "https://github.com/owner/repo",
    "https://git.example/x.git",
    "./x.git",
    "git+https://git.example/x//a",
)
PATHS = (
    "..", "../..", "a/../../x", "/etc/passwd", "./..", "a/./b", "a//..//b", ".git/hooks", ".GIT/config", "git~1",
    "C:/x",
    "a\\..\\b", "a:b", "aux", "con.txt", "a\x00b", "a\nb", "a\x1b[2J", "a\u202eb", "a\u200db/..", "\uff0e\uff0e/x",
    "%2e%2e/x", "x" * 600, "d/" * 40 + "x", "a ", "a.",
)  # fmt: skip
REFS = (
    "--upload-pack=touch CANARY", "-oProxyCommand=touch CANARY", "--exec=CANARY", "..", "a..b", "a b",
    "$(touch CANARY)x y",
    "`touch CANARY` z", "x;touch CANARY", "x|y z", "refs/heads/../../x", "@{u}", "a\nwant 0", "a\0b", "\u202e",
    "é", "a^{}",
    "HEAD~1", ":/x", "*x*", "[a]", "a\\b", "x" * 300, "/abs", "a.lock", "a//b", "0" * 39 + "\n", "sha256:" + "g" * 64,
)  # fmt: skip
PROGRAMS = (
    "ext::sh -c touch% CANARY", "ext::touch CANARY", "fd::17/foo", "EXT::x", "ssh://-oProxyCommand=touch/x.git",
    "ssh://host/x.git", "git@host:x.git", "-oProxyCommand=touch@host:x", "git://host/x.git", "git+ssh://host/x.git",
    "ftp://host/x.git", "rsync://host/x.git", "file://host/x.git", "file:///dev/null", "file:///proc/self",
    "svn://h/x.git",
    "--upload-pack=touch CANARY", "-c core.sshCommand=touch", "git+ext::sh", "git+file://h/x", "http://user:pw@h/x.git",
    "https://h\\@evil/x.git", "https://127.1/x.git", "https://0x7f.1/x.git" )  # fmt: skip
REFERENCES = [
    *PROGRAMS,
    *(f"{host}/{path}" for host, path in product(HOSTS, PATHS)),
    *(f"{host}@{ref}" for host, ref in product(HOSTS[:3], REFS)),
]
LINKS = (
    "../../../../CANARY",
    "/etc/passwd",
    "..",
    ".",
    "loop",
    "nothing",
    "SKILL.md/x",
    "../b/SKILL.md",
    ".git/config",
    "a" * 5000,
)
NAMES = (
    b"..", b".", b".git", b".GIT", b"git~1", b"a\\b", b"a:b", b"C:x", b"con", b"a ", b"a.", b"\xff\xfe", b"a\nb",
    b"\x1b[2J",
    b"\xe2\x80\xae.md", b".g\xe2\x80\x8dit", b"SKILL.MD", b"skill.md", b"%2e%2e",
    b"x" * 300, b"\xef\xbc\x8e\xef\xbc\x8e", b"a/b", b"",
)  # fmt: skip
CONFIGS = (
    f"[uploadpack]\n packObjectsHook = {TOUCH}\n", f"[core]\n fsmonitor = {TOUCH}\n",
    f"[core]\n sshCommand = {TOUCH}\n",
    f"[core]\n hooksPath = .\n pager = {TOUCH}\n", f"[alias]\n upload-pack = !{TOUCH}\n",
    (f'[remote "o"]\n url = ext::{TOUCH}\n promisor = true\n partialclonefilter = blob:none\n uploadpack = {TOUCH}\n'
    "[extensions]\n partialClone = o\n[core]\n repositoryformatversion = 1\n"),
    f'[include]\n path = /etc/passwd\n[filter "x"]\n smudge = {TOUCH}\n clean = {TOUCH}\n',
    f"[diff]\n external = {TOUCH}\n",
    f'[filter "lfs"]\n process = {TOUCH}\n required = true\n', f"[credential]\n helper = !{TOUCH}\n",
)  # fmt: skip


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Watch a case: give its home, and check at the end what is there and which programs were started."""
    started = []
    real = subprocess.Popen.__init__

    def start(self, command, *arguments, **options):
        if (options.get("env") or {}).get("GIT_ALLOW_PROTOCOL"):
            started.append(command)
        elif command[:1] != ["git"]:
            pytest.fail(f"{command} was started")
        real(self, command, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(os, "system", pytest.fail)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home/skillwire"))
    project = tmp_path / "w" / "project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    yield project
    assert all(command[-2:-1] == ["--"] and "upload-pack" in command for command in started)
    assert not [path for path in tmp_path.rglob("*") if "CANARY" in path.name]
    allowed = {"x.git", ".agents", "skills.lock"}
    assert {path.name for path in project.iterdir()} <= allowed
    assert {path.name for path in project.parent.iterdir()} == {"project"}
    for path in (project / ".agents").rglob("*"):
        assert stat.S_ISREG(path.lstat().st_mode) or stat.S_ISDIR(path.lstat().st_mode)
        assert ".git" not in path.parts


def add(project, reference):
    """Add, as a user who agrees to everything; return the names, or the code of the error."""
    with Client(project) as client:
        try:
            return {locked.name for locked in client.add(reference, consent=True, overwrite=True).installed}
        except SkillwireError as error:
            return error.diagnostics().code


@pytest.mark.parametrize("reference", REFERENCES, ids=range(len(REFERENCES)))
def test_a_reference(world, reference, monkeypatch):
    asked = []

    def send(_, request, kind):
        asked.append((request.url.split("/")[2], kind))
        yield from ()
        raise FetchError("TIMEOUT", "nothing is asked here")

    monkeypatch.setattr(git_source.GitSource, "_send", send)
    monkeypatch.setattr(git_source, "ARCHIVES", {})
    assert isinstance(add(world, reference.replace("CANARY", str(world / "CANARY"))), str)
    assert {host for host, _ in asked} <= {"github.com", "git.example"}


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("https://169.254.169.254/x.git", "ADDRESS_REFUSED"),
        ("https://[::ffff:127.0.0.1]/x.git", "ADDRESS_REFUSED"),
        ("https://[64:ff9b::7f00:1]/x.git", "ADDRESS_REFUSED"),
        ("https://0.0.0.0/x.git", "ADDRESS_REFUSED"),
        ("http://example.com/x.git", "PLAIN_HTTP_REFUSED"),
        ("git+http://example.com/x", "PLAIN_HTTP_REFUSED"),
    ],
)
def test_an_address(world, address, code):
    assert add(world, address) == code


def raw(repository, files):
    """Commit a tree of raw names: ``(mode, kind, name, content)`` below ``skills/a``."""

    def store(kind, content):
        name = object_id(kind, content)
        path = repository.folder / ".git/objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content))
        return bytes.fromhex(name)

    rows = [(b"100644", b"SKILL.md", store("blob", skill_md("a").encode()))]
    rows += [
        (mode, name, store(kind, content) if kind else bytes.fromhex("e" * 40)) for mode, kind, name, content in files
    ]
    rows.sort(key=lambda row: row[1])
    tree = store("tree", b"".join(b"%s %s\0%s" % row for row in rows))
    skills = store("tree", b"40000 a\0" + tree)
    root = store("tree", b"40000 skills\0" + skills)
    text = b"tree %s\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nx\n" % root.hex().encode()
    repository.git("update-ref", "refs/heads/main", store("commit", text).hex())


TREES = [
    *(("link", [(b"120000", "blob", b"loop" if target == "loop" else b"l", target.encode())]) for target in LINKS),
    *(("name", [(b"100644", "blob", name, b"x")]) for name in NAMES),
    *(("folder", [(b"40000", "tree", name, b"100644 f\0" + bytes(20))]) for name in NAMES[:4]),
    ("twice", [(b"100644", "blob", b"x", b"1"), (b"100644", "blob", b"x", b"2")]),
    ("case", [(b"100644", "blob", b"X", b"1"), (b"100644", "blob", b"x", b"2")]),
    ("through", [(b"120000", "blob", b"d", b".."), (b"40000", "tree", b"d", b"")]),
    ("submodule", [(b"160000", "", b"sub", b"")]),
    ("mode", [(b"100777", "blob", b"x", b"1")]),
    ("mode", [(b"20000", "blob", b"x", b"1")]),
    ("attributes", [(b"100644", "blob", b".gitattributes", b"* filter=lfs diff=x ident export-subst\n")]),
    ("modules", [(b"100644", "blob", b".gitmodules", b"[submodule x]\n url=ext::touch X\n update=!touch CANARY\n")]),
    ("lfs", [(b"100644", "blob", b"big.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")]),
    ("hook", [(b"100755", "blob", b"post-checkout", f"#!/bin/sh\n{TOUCH}\n".encode())]),
]  # fmt: skip


@pytest.mark.parametrize("over", ["http", "file"])
@pytest.mark.parametrize("number", range(len(TREES)))
def test_a_tree(world, tmp_path, over, number):
    repository = Repository(tmp_path / "repos/r")
    raw(repository, TREES[number][1])
    with GitServer(repository.folder.parent) as server:
        result = add(world, f"{server.url}/r/.git/a" if over == "http" else f"{repository.folder}/.git/a")
    if TREES[number][0] in {"submodule", "attributes", "modules", "lfs", "hook"}:
        assert result == {"a"}
        assert not (world / ".agents/skills/a/sub").exists()


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_a_configuration_of_a_local_repository(world, tmp_path, number):
    repository = Repository(tmp_path / "repos/r").skill("skills/a")
    repository.commit("v1.0.0")
    canary = str(tmp_path / "CANARY")
    for hook in ("post-checkout", "pre-receive", "post-update", "reference-transaction", "fsmonitor-watchman"):
        repository.write({f".git/hooks/{hook}": f"#!/bin/sh\ntouch {canary}\n"})
        (repository.folder / ".git/hooks" / hook).chmod(0o755)
    config = repository.folder / ".git/config"
    config.write_text(config.read_text() + CONFIGS[number].replace("CANARY", canary))
    if "promisor" in CONFIGS[number]:
        blob = repository.git("rev-parse", "HEAD:skills/a/SKILL.md")
        (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    add(world, f"{repository.folder}/.git/a")
    add(world, f"{repository.folder}/.git/a@^1.0")


def bomb(depth=9, width=9):
    """Return a tree that contains itself, ``width`` times in each of ``depth`` folders."""
    objects, tree = {}, b"100644 f\0" + bytes(20)
    for _ in range(depth):
        name = object_id("tree", tree)
        objects[name] = ("tree", tree)
        tree = b"".join(b"40000 %d\0" % number + bytes.fromhex(name) for number in range(width))
    objects[object_id("tree", tree)] = ("tree", tree)
    commit = b"tree %s\nauthor a <a@b> 0 +0000\n\n" % object_id("tree", tree).encode()
    objects[object_id("commit", commit)] = ("commit", commit)
    return object_id("commit", commit), objects


def packed(objects, *, count=None, raw_objects=b""):
    body = b""
    for kind, content in objects:
        prefix = content[:20] if kind == "ref" else b""
        body += head(kind, len(content)) + prefix + zlib.compress(content.removeprefix(prefix))
    return b"PACK" + struct.pack(">II", 2, len(objects) if count is None else count) + body + raw_objects + bytes(20)


def answered(pack):
    lines = b"000dpackfile\n"
    for start in range(0, len(pack), 60_000):
        piece = b"\x01" + pack[start : start + 60_000]
        lines += b"%04x%s" % (len(piece) + 4, piece)
    return lines + b"0000"


COMMIT, BOMB = bomb()
SEED = random.Random(20)  # noqa: S311  # a table of cases
PACKS = [
    b"", b"0000", b"0003", b"zzzz", b"ffff", b"0009ERR x\x1b[2J"[:13], b"0008\x03die0000",
    answered(b""), answered(b"PACK"),
    answered(packed(BOMB.values())), answered(packed([], count=2**32 - 1)), answered(packed([("blob", b"x")], count=9)),
    answered(packed([("ofs", b"x")])), answered(packed([("ref", bytes(20) + b"\x01\x01\x90\x01")])),
    answered(packed([("blob", b"x"), ("ref", bytes.fromhex(object_id("blob", b"x")) + b"\1\xff\xff\xff\x7f\x91\0\1")])),
    answered(packed([], count=1, raw_objects=b"\xbf\xff\xff\xff\x7f" + zlib.compress(bytes(50_000_000)))),
    answered(packed([], count=1, raw_objects=b"\xb0\x80" + b"\xff" * 400)), answered(packed([("commit", b"tree x\n")])),
    answered(packed([("commit", BOMB[COMMIT][1])])), b"000dpackfile\n" + b"0005\x01" * 2_000,
]  # fmt: skip
WHOLE = answered(packed(BOMB.values()))
for _ in range(60):
    changed = bytearray(WHOLE)
    for _ in range(SEED.randint(1, 6)):
        changed[SEED.randrange(len(changed))] = SEED.randrange(256)
    PACKS.append(bytes(changed[: SEED.choice([len(changed), SEED.randrange(len(changed))])]))


@pytest.mark.parametrize("number", range(len(PACKS)))
def test_an_answer_with_a_pack(world, tmp_path, number):
    tmp_path.joinpath("repos").mkdir()
    with GitServer(tmp_path / "repos") as server:
        kinds = "application/x-git-upload-pack-"
        server.answers["/x.git/info/refs"] = (200, b"000eversion 2\n0011fetch=filter\n0000", f"{kinds}advertisement")
        server.answers["/x.git/git-upload-pack"] = (200, PACKS[number], f"{kinds}result")
        assert isinstance(add(world, f"{server.url}/x.git@{COMMIT}"), str)


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "http://169.254.169.254/x.git/info/refs", "ext::sh", "//evil.example/",
    "http://127.0.0.1:1/",
     "https://user:pw@host/", "/x.git/info/refs", "gopher://x/", "http://[::1]:22/", "\x00"],
)  # fmt: skip
def test_a_redirect(world, tmp_path, location):
    tmp_path.joinpath("repos").mkdir()
    with GitServer(tmp_path / "repos") as server:
        server.answers["/x.git/git-upload-pack"] = (302, b"", "text/plain", {"Location": location})
        server.answers["/x.git/info/refs"] = (302, b"", "text/plain", {"Location": location})
        assert isinstance(add(world, f"{server.url}/x.git"), str)


def test_there_are_enough_cases():
    assert len(REFERENCES) + 2 * len(TREES) + len(CONFIGS) + len(PACKS) + 10 >= 300
    assert Path(__file__).is_file()
