"""From entries to files: collisions, links, bounds, and SKILL.md at the root."""

import pytest

from skillwire import limits
from skillwire.errors import SkillwireError, TrustError, ValidationError
from skillwire.model.skill import FileContent
from skillwire.trust.archive.plan import Entry, plan_entries, plan_files

SKILL = Entry("file", "SKILL.md", b"# a skill")


def file(path, content=b"text", *, executable=False):
    return Entry("file", path, content, executable)


def link(path, target):
    return Entry("symlink", path, target=target if isinstance(target, bytes) else target.encode())


def hard(path, target):
    return Entry("hardlink", path, target=target.encode())


def folder(path):
    return Entry("folder", path)


def planned(*entries):
    return {file.path: bytes(file.content) for file in plan_entries([SKILL, *entries]).files}


def refusal(*entries):
    with pytest.raises(SkillwireError) as caught:
        plan_entries([SKILL, *entries])
    return caught.value.code


def test_files_come_out_sorted_and_folders_vanish():
    plan = plan_entries([file("b/c", executable=True), folder(""), folder("b"), folder("empty"), file("a"), SKILL])
    assert plan.files == (
        FileContent("SKILL.md", b"# a skill"),
        FileContent("a", b"text"),
        FileContent("b/c", b"text", executable=True),
    )


@pytest.mark.parametrize(
    ("entries", "copies"),
    [
        ([link("l", "a/f")], {"l"}),
        ([link("a/l", "f")], {"a/l"}),
        ([link("a/b/l", "../f")], {"a/b/l"}),
        ([link("a/b/l", "./..//f")], {"a/b/l"}),
        ([link("l", "a")], {"l/f"}),
        ([link("l", "a/")], {"l/f"}),
        ([link("l", "m"), link("m", "n"), link("n", "a/f")], {"l", "m", "n"}),
        ([link("d", "a"), link("l", "d/f")], {"d/f", "l"}),
        ([link("l", "a/up/f"), link("a/up", "../a/b/../")], None),
        ([hard("l", "a/f")], {"l"}),
        ([hard("l", "./a/f"), hard("a/m", "l")], {"l", "a/m"}),
        ([link("a/l", "../empty"), folder("empty")], set()),
    ],
)
def test_links_become_copies_of_what_they_lead_to(entries, copies):
    base = (file("a/f"), folder("a/b"))
    if copies is None:  # a link to the folder that it stands in
        assert refusal(*base, *entries) == "LINK_LOOP"
        return
    assert planned(*base, *entries) == {"SKILL.md": b"# a skill", "a/f": b"text"} | dict.fromkeys(copies, b"text")


def test_a_copy_keeps_the_executable_bit_and_shares_the_bytes():
    plan = plan_entries([SKILL, file("run.sh", b"#!", executable=True), link("l", "run.sh")])
    copy, original = plan.files[1:]
    assert copy.executable
    assert copy.content is original.content


def test_skill_md_may_be_a_link():
    plan = plan_entries([file("docs/a.md"), link("SKILL.md", "docs/a.md")])
    assert [file.path for file in plan.files] == ["SKILL.md", "docs/a.md"]


@pytest.mark.parametrize(
    ("code", "entries"),
    [
        ("PATH_COLLISION", [SKILL]),
        ("PATH_COLLISION", [file("skill.MD")]),
        ("PATH_COLLISION", [file("A/x"), file("a/y")]),
        ("PATH_COLLISION", [file("a/B/x"), folder("a/b")]),
        ("PATH_COLLISION", [file("stra\u00dfe"), file("STRASSE")]),
        ("PATH_COLLISION", [file("caf\u00e9"), file("cafe\u0301")]),
        ("PATH_COLLISION", [file("a"), file("a/b")]),
        ("PATH_COLLISION", [file("a/b"), file("a")]),
        ("PATH_COLLISION", [file("a"), folder("a")]),
        ("PATH_COLLISION", [folder("a"), link("a", "SKILL.md")]),
        ("PATH_COLLISION", [link("a", "SKILL.md"), folder("a")]),
        ("PATH_COLLISION", [link("a", "SKILL.md"), file("a")]),
        ("PATH_COLLISION", [link("D", "SKILL.md"), file("d/f")]),
        ("LINK_THROUGH", [folder("d"), link("l", "d"), file("l/f")]),
        ("LINK_THROUGH", [link("l", "d"), folder("l/d")]),
        ("LINK_THROUGH", [file("d/f"), link("l", "d"), hard("h", "l/f")]),
        ("LINK_THROUGH", [link("l", "SKILL.md"), hard("h", "l")]),
        ("LINK_ESCAPE", [link("l", "/etc/passwd")]),
        ("LINK_ESCAPE", [link("l", "..")]),
        ("LINK_ESCAPE", [link("l", "../skill/SKILL.md")]),
        ("LINK_ESCAPE", [link("a/l", "../../x")]),
        ("LINK_ESCAPE", [hard("h", "../x")]),
        ("LINK_ESCAPE", [hard("h", "/SKILL.md")]),
        ("LINK_ESCAPE", [file("a/b/f"), link("s", "a/b"), link("l", "s/../../../x")]),
        ("LINK_DANGLING", [link("l", "x")]),
        ("LINK_DANGLING", [link("l", "skill.md")]),
        ("LINK_DANGLING", [link("l", "SKILL.md/")]),
        ("LINK_DANGLING", [link("l", "SKILL.md/..")]),
        ("LINK_DANGLING", [link("l", "SKILL.md\0")]),
        ("LINK_DANGLING", [hard("h", "")]),
        ("LINK_DANGLING", [folder("d"), hard("h", "d")]),
        ("LINK_LOOP", [link("l", "l")]),
        ("LINK_LOOP", [link("l", "m"), link("m", "l")]),
        ("LINK_LOOP", [hard("h", "h")]),
        ("LINK_LOOP", [link("l", "")]),
        ("LINK_LOOP", [link("l", ".")]),
        ("LINK_LOOP", [link("a/l", "..")]),
        ("LINK_LOOP", [link("a/l", "../b"), link("b/l", "../a")]),
        ("PATH_TOO_LONG", [link("l", "x" * 513)]),
        ("PATH_TOO_LONG", [file("d/" + "f" * 250), link("a/" * 10 + "l" * 250, "../" * 10 + "d")]),
        ("PATH_TOO_DEEP", [file("d/" * 20 + "f"), link("a/" * 15 + "l", "../" * 15 + "d")]),
        ("PATH_INVALID", [link("l", b"\xff")]),
        ("PATH_WINDOWS", [link("l", "..\\x")]),
    ],
)
def test_what_systems_could_take_differently_is_refused(code, entries):
    assert refusal(*entries) == code


def test_entries_are_counted_with_the_copies():
    files = [file(f"d/{number}") for number in range(limits.ARCHIVE_ENTRIES // 2)]
    assert len(planned(*files)) == len(files) + 1
    assert refusal(*files, link("l", "d")) == "ARCHIVE_ENTRIES"
    assert refusal(*files, *files) == "PATH_COLLISION"
    assert refusal(*[folder("d")] * limits.ARCHIVE_ENTRIES) == "ARCHIVE_ENTRIES"


def test_bytes_are_counted_with_the_copies():
    large = file("large", bytes(limits.ARCHIVE_FILE_BYTES - len(SKILL.content)))
    assert len(planned(large, hard("l", "large"))) == 3
    assert refusal(large, hard("l", "large"), link("m", "SKILL.md"), link("n", "m")) == "ARCHIVE_TOTAL_SIZE"


def test_links_that_multiply_each_other_cost_no_more_than_the_bound():
    # Sixty links at each of thirty levels lead to the next level: 60^30 ways down, and no file at all.
    levels = [link(f"{level:02}/l{number}", f"../{level + 1:02}") for level in range(30) for number in range(60)]
    assert refusal(*levels, folder("30")) == "ARCHIVE_ENTRIES"


def test_links_that_name_each_other_many_times_are_each_followed_once():
    chain = [link(f"l{number}", f"l{number + 1}/../" * 60 + f"l{number + 1}") for number in range(30)]
    assert len(planned(*chain, file("l30/f"))) == 32


def test_a_chain_of_links_has_an_end():
    hops = limits.ARCHIVE_LINK_HOPS
    assert len(planned(*[link(f"l{n}", f"l{n + 1}") for n in range(hops)], link(f"l{hops}", "SKILL.md"))) == hops + 2
    assert refusal(*[link(f"l{n}", f"l{n + 1}") for n in range(hops + 1)], link(f"l{hops + 1}", "SKILL.md")) == (
        "LINK_LOOP"
    )


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["README.md"], "no SKILL.md at the root"),
        (["skill.md"], "no SKILL.md at the root"),
        (["my-skill/SKILL.md", "my-skill/x"], "wrapper folder, 'my-skill'"),
        (["my-skill/SKILL.md", "__MACOSX/x"], "wrapper folder, 'my-skill'"),
        ([], "no SKILL.md at the root"),
    ],
)
def test_skill_md_must_stand_at_the_root(paths, message):
    with pytest.raises(ValidationError, match=message) as caught:
        plan_entries([file(path) for path in paths])
    assert caught.value.code == "NO_SKILL_MD"


def test_plain_files_are_planned_under_the_same_rules():
    files = [FileContent("b", b"b"), FileContent("SKILL.md", b"s", executable=True)]
    assert plan_files(files).files == (files[1], files[0])
    for bad, code in [
        (FileContent("../x", b""), "PATH_TRAVERSAL"),
        (FileContent("B", b""), "PATH_COLLISION"),
        (FileContent("c", bytes(limits.ARCHIVE_FILE_BYTES + 1)), "ARCHIVE_FILE_SIZE"),
    ]:
        with pytest.raises(TrustError) as caught:
            plan_files([*files, bad])
        assert caught.value.code == code
