"""Finding skills below a root, loading one, and the one error for who wants a skill or nothing."""

import os

import pytest

from skillwire.errors import NotFoundError, ValidationError
from skillwire.folder.files import find_bare_folders, find_folders
from skillwire.folder.load import IdentifiedSkill, check_folder, find_collisions, identify, load_folder

MINIMAL = "---\nname: {name}\ndescription: d\n---\n# B\n"


def test_a_root_that_is_a_skill_is_the_only_one(write):
    folder = write(**{"inner/SKILL.md": "x"})
    assert find_folders(folder) == [folder]


def test_skills_are_found_below_a_root_but_not_inside_each_other(write, tmp_path):
    for name in ("b", "a", "group/c", "1/2/3/four", "1/2/3/4/five", "b/nested/x", ".hidden/h", "node_modules/n"):
        write(name)
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower/skill.md").write_text("x")
    (tmp_path / "again").symlink_to("a")
    (tmp_path / "round").symlink_to(".")
    found = [str(path.relative_to(tmp_path)) for path in find_folders(tmp_path)]
    assert len([path for path in found if path in ("a", "again")]) == 1
    assert [path for path in found if path not in ("a", "again")] == ["1/2/3/four", "b", "group/c", "lower"]


@pytest.mark.parametrize("path", ["more/SKILL.md", "a/b/skill.md"])
def test_a_skill_inside_another_is_said(found, path):
    assert found(**{path: "x", "SKILL.md.txt": "x", "OTHERSKILL.md": "x"}) == [f"warning SKILL_WITHIN_SKILL {path}"]
    assert found("lenient", **{path: "x"}) == [f"note SKILL_WITHIN_SKILL {path}"]


def test_an_empty_folder_is_said(write, found):
    (write() / "assets" / "pictures").mkdir(parents=True)
    assert found() == ["note FOLDER_EMPTY assets/pictures"]


def test_what_lies_beside_skills_and_is_none_is_said(write, tmp_path):
    for name in ("a", "group/b"):
        write(name)
    write("c", **{"SKILL.md": None, "SKIL.md": "x"})
    for name in (".git", "node_modules", "group/d"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("x")
    findings = list(find_bare_folders(tmp_path, find_folders(tmp_path)))
    assert [(one.code, one.level, one.place.source) for one in findings] == [
        ("FOLDER_WITHOUT_SKILL", "note", str(tmp_path / "c"))
    ]
    assert list(find_bare_folders(tmp_path, find_folders(tmp_path), level="lenient")) == []
    assert list(find_bare_folders(tmp_path, [tmp_path / "group" / "b"])) == []  # here it holds other things


def test_nothing_is_found_where_there_is_nothing(tmp_path):
    assert find_folders(tmp_path) == []
    assert find_folders(tmp_path / "absent") == []


def test_a_loaded_folder(write):
    folder = write(
        **{"a.md": "x", "skill.toml": 'version = "2.0.0"\n', "descriptor.json": '{"id": "p/demo", "name": "D"}'}
    )
    loaded = load_folder(folder, level="lenient")
    assert (loaded.name, loaded.version) == ("demo", "2.0.0")
    assert loaded.description == "Does it. Use when it is to be done."
    assert loaded.descriptor == {"id": "p/demo", "name": "D"}
    assert [file.path for file in loaded.files] == ["SKILL.md", "a.md", "descriptor.json", "skill.toml"]


@pytest.mark.parametrize(
    ("metadata", "manifest", "version"),
    [
        ("", None, "0.1.0"),
        ("metadata:\n  version: '1.2.3'\n", None, "1.2.3"),
        ("metadata:\n  version: '1.2'\n", None, "0.1.0"),
        ("metadata:\n  version: '1.2.3'\n", 'version = "2.0.0"', "2.0.0"),
    ],
)
def test_the_version(write, metadata, manifest, version):
    text = f"---\nname: demo\ndescription: d\n{metadata}---\n# B\n"
    assert load_folder(write(**{"SKILL.md": text, "skill.toml": manifest})).version == version


@pytest.mark.parametrize("level", ["strict", "lenient"])
def test_a_skill_that_only_the_skills_protocol_describes(write, found, level):
    skill_md = "---\nname: Lead Sync\nshort_description: s\ntags: [crm, leads]\n---\n# B\n"
    skill_toml = 'name = "a.b"\nversion = "1.0.0"\ndescription = "Sync leads."\n'
    folder = {"SKILL.md": skill_md, "skill.toml": skill_toml}
    loaded = load_folder(write(**folder), level=level)
    assert (loaded.name, loaded.description, loaded.version) == ("demo", "Sync leads.", "1.0.0")
    assert found(level, **folder) == ["warning SKILLS_PROTOCOL_ONLY SKILL.md:1"]
    for toml in ('name = "a.b"', 'description = "Sync leads."'):
        assert "error DESCRIPTION_FORM SKILL.md:1" in found(level, **{**folder, "skill.toml": toml})


def test_a_skill_md_that_cannot_be_read_is_not_an_absent_one(tmp_path):
    (tmp_path / "demo").mkdir()
    os.mkfifo(tmp_path / "demo" / "SKILL.md")
    with pytest.raises(ValidationError, match="FILE_SPECIAL: this is neither a file nor a folder"):
        load_folder(tmp_path / "demo")


def test_a_folder_without_a_skill_is_not_found(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NotFoundError, match="SKILL_NOT_FOUND"):
            load_folder(path)


def test_an_invalid_folder_is_one_error_that_has_all(write):
    folder = write(**{"SKILL.md": "---\nname: other\ndescription: d\nodd: x\n---\n# B\n"})
    with pytest.raises(ValidationError) as caught:
        load_folder(folder)
    error = caught.value
    assert error.code == "SKILL_INVALID"
    path = folder / "SKILL.md"
    assert error.message == f"2 errors: NAME_FOLDER ({path}:2:1), FIELD_UNKNOWN ({path}:4:1)"
    assert (str(error.place), error.fix) == (
        str(folder),
        f"Correct each of them; to see them again: skillwire check {folder}",
    )
    assert len(error.details["findings"]) == 2  # type: ignore[arg-type]  # a list
    assert load_folder(folder, level="lenient").name == "demo"


def test_where_the_folder_has_no_name_of_a_skill_the_frontmatter_gives_it(write):
    folder = write("My Skill", **{"SKILL.md": MINIMAL.format(name="my-skill")})
    assert load_folder(folder, level="lenient").name == "my-skill"
    folder = write("Two", **{"SKILL.md": MINIMAL.format(name="Two")})
    assert [finding.code for finding in check_folder(folder, level="lenient").findings][-1] == "NAME_FORM"
    with pytest.raises(ValidationError):
        load_folder(folder, level="lenient")


def test_skill_md_in_lower_case_is_read_leniently(write):
    folder = write(**{"SKILL.md": None, "skill.md": MINIMAL.format(name="demo")})
    assert [file.path for file in load_folder(folder, level="lenient").files] == ["SKILL.md"]
    assert check_folder(folder).folder is None


def test_the_folder_may_be_named_by_a_dot(write, monkeypatch):
    from pathlib import Path as _Path  # noqa: PLC0415  # the only use at run time

    monkeypatch.chdir(write())
    assert load_folder(_Path()).name == "demo"


@pytest.mark.parametrize("level", ["strict", "lenient"])
@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"SKILL.md": "no frontmatter"}, "FRONTMATTER"),
        ({"SKILL.md": "---\nname: demo\n---\n"}, "DESCRIPTION_FORM"),
        ({"SKILL.md": b"---\nname: demo\ndescription: d\n---\n\xff"}, "ENCODING"),
        ({"skill.toml": "x = "}, "TOML_SYNTAX"),
        ({"skill.toml": 'kind = "x"'}, "FIELD"),
        ({"skill.toml": '[permissions]\nnetwork = ["*"]\n'}, "PERMISSION_NETWORK"),
        ({"descriptor.json": "{"}, "JSON_SYNTAX"),
        ({"descriptor.json": "[]"}, "DESCRIPTOR_FORM"),
        ({"descriptor.json": '{"id": "a/b", "name": "x"}', "skill.toml": 'id = "a/c"'}, "DESCRIPTOR_DIFFERS"),
        ({"skill.toml": '[runtime]\nlanguage = "python"\nentrypoint = "a.py"\n'}, "ENTRYPOINT_ABSENT"),
    ],
)
def test_what_no_level_lets_pass(write, files, code, level):
    examination = check_folder(write(**files), level=level)
    assert examination.folder is None
    assert [finding.code for finding in examination.findings if finding.level == "error"] == [code]


def named(path):
    folder = load_folder(path)
    return IdentifiedSkill(str(path), folder.name, identify(folder, "example-corp"))


def test_skills_that_share_an_identifier(write):
    skills = [
        named(write("a")),
        named(write("group/a")),
        named(write("b", **{"skill.toml": 'id = "example-corp/a"\n'})),
        named(write("c", **{"skill.toml": 'skill_id = "a"\n'})),
        named(write("d-e")),
        named(write("f", **{"skill.toml": 'name = "example.corp.d.e"\n'})),
        named(write("g")),
    ]
    findings = find_collisions(skills)
    assert [(finding.code, finding.level) for finding in findings] == [("IDENTIFIER_COLLISION", "error")] * 4
    protocols = ["Agent Skills Discovery", "Skill Sharing", "Skill Discovery", "Skills Protocol"]
    assert [finding.message.split(" has ")[0] for finding in findings] == protocols
    for finding, (first, second) in zip(findings, [(0, 1), (0, 2), (0, 3), (4, 5)], strict=True):
        assert str(skills[first].path) in finding.message
        assert finding.place.source == f"{skills[second].path}/SKILL.md"


def test_different_skills_do_not_collide(write):
    assert find_collisions(named(write(name)) for name in ("a", "b", "a-b")) == []
