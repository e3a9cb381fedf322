"""Packs, trees and archives of repositories."""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.git_packs import KINDS, head

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError, TrustError
from skillwire.model.ref import GitFile
from skillwire.resolver.sources.git import find_skill_folders, tag_versions
from skillwire.trust.git_objects import Tree, object_id, plan_skill, read_commit, read_pack
from skillwire.wire.git import Ref


def pack(*objects, count=None):
    """Return a pack of ``(kind, content)``, and of ``(base, difference)`` where the first is a name."""
    body = b""
    for kind, content in objects:
        front = head(kind, len(content)) if kind in KINDS else head("ref", len(content)) + bytes.fromhex(kind)
        body += front + zlib.compress(content)
    return b"PACK" + struct.pack(">II", 2, len(objects) if count is None else count) + body + bytes(20)


def code_of(call):
    with pytest.raises(SkillwireError) as caught:
        call()
    return caught.value.code


BASE = b"hello world"
NAME = object_id("blob", BASE)


@given(st.lists(st.binary(max_size=9_000), max_size=6))
def test_objects_come_back_by_their_names(contents):
    assert read_pack(pack(*(("blob", one) for one in contents))) == {object_id("blob", one): one for one in contents}


def test_differences_are_applied_in_any_order():
    middle = b"hello, world"
    first = (NAME, b"\x0b\x0c" + b"\x90\x05" + b"\x01," + b"\x91\x05\x06")
    second = (object_id("blob", middle), b"\x0c\x05" + b"\x90\x05")
    found = read_pack(pack(second, first, ("blob", BASE)))
    assert set(found.values()) == {BASE, middle, b"hello"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "GIT_ANSWER"),
        (b"PACK" + bytes(40), "GIT_ANSWER"),
        (pack(("blob", BASE))[:-25] + bytes(20), "GIT_ANSWER"),
        (pack(("blob", BASE), count=2), "GIT_ANSWER"),
        (pack(count=limits.GIT_OBJECTS + 1), "GIT_SIZE"),
        (pack((NAME, b"\x0b\x05\x90\x05")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0a\x05\x90\x05")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0b\x06\x90\x05")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0b\x05\x91\x0a\x05")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0b\x05\x00")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0b\x05\x05hel")), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\xff" * 12)), "GIT_ANSWER"),
        (pack(("blob", BASE), (NAME, b"\x0b\xff\xff\xff\x7f\x90\x05")), "GIT_SIZE"),
        (b"PACK" + struct.pack(">II", 2, 1) + head("blob", 2**40) + zlib.compress(b"x") + bytes(20), "GIT_SIZE"),
        (b"PACK" + struct.pack(">II", 2, 1) + head("blob", 3) + zlib.compress(bytes(10**6)) + bytes(20), "GIT_ANSWER"),
        (b"PACK" + struct.pack(">II", 2, 1) + head("blob", 9) + zlib.compress(b"x") + bytes(20), "GIT_ANSWER"),
        (
            b"PACK" + struct.pack(">II", 2, 1) + b"\xb1" + b"\x80" * 9 + b"\0" + zlib.compress(b"x") + bytes(20),
            "GIT_ANSWER",
        ),
    ],
)
def test_a_malformed_pack_is_refused(data, code):
    assert code_of(lambda: read_pack(data)) == code


@given(st.binary(max_size=200))
def test_no_pack_raises_anything_else(data):
    with suppress(DecodeError, TrustError):
        read_pack(b"PACK" + struct.pack(">II", 2, 1) + data + bytes(20))


def commit_of(*rows):
    tree = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(child)) for mode, name, child in rows)
    text = b"tree %s\n\n" % object_id("tree", tree).encode()
    return object_id("commit", text), {object_id("tree", tree): tree, object_id("commit", text): text}


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b"])
def test_a_name_that_is_no_name_is_refused(name):
    commit, objects = commit_of((b"100644", name, NAME))
    assert code_of(lambda: read_commit(commit, objects)) == "GIT_ANSWER"


def test_a_folder_that_contains_itself_many_times_is_refused():
    tree = b"100644 f\0" + bytes(20)
    objects = {}
    for _ in range(9):
        name = object_id("tree", tree)
        objects[name] = tree
        tree = b"".join(b"40000 %d\0%s" % (number, bytes.fromhex(name)) for number in range(9))
    commit, more = commit_of((b"40000", b"x", object_id("tree", tree)))
    objects |= more | {object_id("tree", tree): tree}
    assert code_of(lambda: read_commit(commit, objects)) == "GIT_SIZE"


@pytest.mark.parametrize(
    ("path", "mode", "content", "code"),
    [
        (".git/config", "100644", b"", "PATH_FORBIDDEN"),
        ("a\\b", "100644", b"", "PATH_WINDOWS"),
        ("l", "120000", b"../x", "LINK_ESCAPE"),
        ("l", "120000", b"/etc/passwd", "LINK_ESCAPE"),
        ("l", "120000", b"l", "LINK_LOOP"),
        ("skill.MD", "100644", b"", "PATH_COLLISION"),
    ],
)
def test_the_files_of_a_skill_obey_the_rules_for_archives(path, mode, content, code):
    files = [GitFile("SKILL.md", "100644", "s"), GitFile(path, mode, "x")]
    assert code_of(lambda: plan_skill(files, {"s": b"---\n", "x": content})) == code


@pytest.mark.parametrize(
    ("paths", "below", "found"),
    [
        (["SKILL.md", "skills/a/SKILL.md"], "", [""]),
        (["skills/a/SKILL.md", ".claude/skills/b/SKILL.md", "c/SKILL.md"], "", ["c", "skills/a", ".claude/skills/b"]),
        (["skills/a/SKILL.md", "skills/a/inner/SKILL.md"], "", ["skills/a"]),
        (["skills/x/y/a/SKILL.md", "skills/x/y/z/b/SKILL.md"], "", ["skills/x/y/a"]),
        (["skills/node_modules/x/a/SKILL.md"], "", []),
        (["x/y/a/SKILL.md"], "", ["x/y/a"]),
        (["x/y/a/SKILL.md", "b/SKILL.md"], "", ["b"]),
        (["x/skills/a/SKILL.md", "skills/b/SKILL.md"], "x", ["x/skills/a"]),
        (["README.md"], "", []),
    ],
)
def test_the_folders_of_skills(paths, below, found):
    folders = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(path.count("/") + 1)}
    tree = Tree(tuple(GitFile(path, "100644", "") for path in paths), dict.fromkeys(folders, ""))
    assert find_skill_folders(tree, below) == found


@pytest.mark.parametrize(
    ("tags", "skill", "versions"),
    [
        (["v1.0.0", "2.0.0", "x", "v1", "1.0"], None, {"1.0.0", "2.0.0"}),
        (["v1.0.0", "a-v2.0.0", "b-v3.0.0"], "a", {"2.0.0"}),
        (["v1.0.0", "b-v3.0.0"], "a", {"1.0.0"}),
        (["a@1.1.0", "a/v1.2.0-rc.1", "a-1.3.0+x"], "a", {"1.1.0", "1.2.0-rc.1", "1.3.0+x"}),
        (["v01.0.0", "v1.0.0.0", "v1.0.0-"], None, set()),
    ],
)
def test_tags_are_versions(tags, skill, versions):
    refs = {tag: Ref(f"refs/tags/{tag}", "a" * 40) for tag in tags}
    assert set(tag_versions(refs, skill)) == versions
