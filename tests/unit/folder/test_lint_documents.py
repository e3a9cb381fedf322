"""Rules about YAML that readers read differently; tests/interop/test_frontmatter_readers.py asks the readers."""

import json

import pytest

from skillwire.folder.load import check_folder


def skill(head):
    return f"---\n{head}metadata:\n  version: '1.0.0'\n---\n# B\n"


def column(behind):
    """Return the column of a value behind ``license:``; that of the key where the value is on another line."""
    return 1 if "\n" in behind else 9 + len(behind) - len(behind.lstrip())


@pytest.mark.parametrize(
    "value",
    [
        *("404", "007", "0x1F", "0o17", "0b11", "1e5", "+12e03", "1.0", ".5", "1_000", "-.INF", ".nan"),
        *("true", "False", "yes", "NO", "on", "Off", "null", "~", "12:30:45", "2024-01-01", "2024-01-01T10:00:00Z"),
    ],
)
def test_a_value_that_some_reader_gives_another_type(found, value):
    for behind in (f" {value}", f"   {value}  ", f" {value} # comment", f"\n  {value}", f"\n\n  # why\n  {value}"):
        text = skill(f"name: demo\ndescription: d\nlicense:{behind}\n")
        assert found(**{"SKILL.md": text}) == [f"warning FRONTMATTER_TYPED SKILL.md:4:{column(behind)}"], behind
        assert found("lenient", **{"SKILL.md": text}) == []
    for quoted in (f"'{value}'", f'"{value}"', f"|\n  {value}", f"a {value}"):
        assert found(**{"SKILL.md": skill(f"name: demo\ndescription: d\nlicense: {quoted}\n")}) == [], quoted


def test_a_name_and_a_value_of_metadata(found):
    text = "---\nname: 404\ndescription: d\nmetadata:\n  version: '1.0.0'\n  built: 2026-01-31\n---\n# B\n"
    expected = ["warning FRONTMATTER_TYPED SKILL.md:2:7", "warning FRONTMATTER_TYPED SKILL.md:6:10"]
    assert sorted(found("strict", "404", **{"SKILL.md": text})) == expected


@pytest.mark.parametrize("value", ["1.0.0", "v1", "3d-print", "1-2", "nothing", "2024-01-01 or later", "12:99"])
def test_a_value_that_is_text_to_everyone(found, value):
    assert found(**{"SKILL.md": skill(f"name: demo\ndescription: d\nlicense: {value}\n")}) == []


@pytest.mark.parametrize(
    ("head", "place"),
    [
        ('name: demo\ndescription: "foo"#c\n', "3:19"),
        ("name: demo\ndescription: >#c\n  foo\n", "3:15"),
        ('name: demo\ndescription: "foo\n  bar"#c\n', "4:7"),
        ('name: demo\ndescription: "foo\nbar"\n', "4:1"),
        ("name: demo\ndescription: 'it''s\nbar'\n", "4:1"),
        ('name: demo\ndescription: "foo\n#bar"\n', "4:1"),
        ('name: demo\ndescription: "foo\n"\n', "4:1"),
        ('name: demo\ndescription:\n  "foo\nbar"\n', "5:1"),
        ('name: demo\ndescription: "a\n\n  b\nc"\n', "6:1"),
    ],
)
def test_what_only_libyaml_reads(found, head, place):
    assert found(**{"SKILL.md": skill(head)}) == [f"error FRONTMATTER_YAML SKILL.md:{place}"]
    assert found("lenient", **{"SKILL.md": skill(head)}) == []


def test_the_indentation_that_counts_is_that_of_the_key(found):
    text = '---\nname: demo\ndescription: d\nmetadata:\n  version: "1.0.0"\n  note: "x\n{}y"\n---\n# B\n'
    assert found(**{"SKILL.md": text.format("  ")}) == ["error FRONTMATTER_YAML SKILL.md:7:1"]
    assert found(**{"SKILL.md": text.format("   ")}) == []


@pytest.mark.parametrize(
    "head",
    [
        'name: demo\ndescription: "foo" #c\n# a comment\n',
        'name: demo\ndescription: "foo#c"\n',
        "name: demo\ndescription: foo#c\n",
        'name: demo\ndescription: "foo\n\n  bar"\n# a comment\n',
    ],
)
def test_what_every_reader_reads(found, head):
    assert found(**{"SKILL.md": skill(head)}) == []


VERSION = "metadata:\n  version: '1.0.0'\n"


def md(head="", body="# B\n", version=VERSION):
    """Return a SKILL.md of the skill demo, whose name and description may be given."""
    name = "" if head.startswith("name:") else "name: demo\n"
    description = "" if "description:" in head else "description: d\n"
    return f"---\n{name}{description}{head}{version}---\n{body}"


def test_a_good_skill_has_no_findings(found):
    assert found() == []
    assert found("lenient") == []


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        (md("name: other\ndescription: d\n"), ["error NAME_FOLDER SKILL.md:2:1"], ["warning NAME_FOLDER SKILL.md:2:1"]),
        (
            md("name: Demo\ndescription: d\n"),
            ["error NAME_RULE SKILL.md:2:1", "error NAME_FOLDER SKILL.md:2:1"],
            ["warning NAME_RULE SKILL.md:2:1", "warning NAME_FOLDER SKILL.md:2:1"],
        ),
        (
            md("description: " + "d" * 1025 + "\n"),
            ["error DESCRIPTION_LENGTH SKILL.md:3:1"],
            ["warning DESCRIPTION_LENGTH SKILL.md:3:1"],
        ),
        (md("description: >\n  " + "d" * 1024 + "\n"), ["error DESCRIPTION_LENGTH SKILL.md:3:1"], None),
        (md("description: " + "d" * 1024 + "\n"), [], []),
        (
            md("compatibility: " + "c" * 501 + "\n"),
            ["error COMPATIBILITY_LENGTH SKILL.md:4:1"],
            ["warning COMPATIBILITY_LENGTH SKILL.md:4:1"],
        ),
        (md("license: 'MIT'\nodd: x\n"), ["error FIELD_UNKNOWN SKILL.md:5:1"], ["warning FIELD_UNKNOWN SKILL.md:5:1"]),
        (
            md("allowed-tools:\n- Read\n- Write\n"),
            ["error FIELD_FORM SKILL.md:4:1"],
            ["warning FIELD_FORM SKILL.md:4:1"],
        ),
        (
            md("license:\ncompatibility: ''\n"),
            ["error FIELD_EMPTY SKILL.md:4:1", "error FIELD_EMPTY SKILL.md:5:1"],
            ["warning FIELD_EMPTY SKILL.md:4:1", "warning FIELD_EMPTY SKILL.md:5:1"],
        ),
        (md("", version="metadata: {version: '1.0.0'}\n"), ["error FLOW_STYLE SKILL.md:4:11"], []),
        (md("description: a --- b\n"), ["error FRONTMATTER_HYPHENS SKILL.md:3:16"], []),
        (md("description: a\tb\n"), ["error FRONTMATTER_YAML SKILL.md:3:15"], []),
        (md("description: '='\n"), ["error FRONTMATTER_YAML SKILL.md:3:1"], []),
        (md("", version=VERSION + "  <<: x\n"), ["error FRONTMATTER_YAML SKILL.md:6:3"], []),
        ("\ufeff" + md(""), ["error BYTE_ORDER_MARK SKILL.md:1:1"], ["warning BYTE_ORDER_MARK SKILL.md:1:1"]),
        (
            md("allowed-tools: Read, Bash(git a,b)\n"),
            ["warning ALLOWED_TOOLS_COMMA SKILL.md:4:1"],
            ["note ALLOWED_TOOLS_COMMA SKILL.md:4:1"],
        ),
        (md("allowed-tools: Read Bash(git a,b)\n"), [], []),
        (md("", " \n"), ["warning BODY_EMPTY SKILL.md:7"], ["note BODY_EMPTY SKILL.md:7"]),
        (md("", "x\n" * 499), [], []),
        (md("", "x\n" * 500), ["warning BODY_LINES SKILL.md:7"], []),
        (md("", "x" * 19_999), [], []),
        (md("", "x" * 20_000), ["warning BODY_TOKENS SKILL.md:7"], []),
        (md("", version=""), ["warning VERSION_MISSING SKILL.md:1"], []),
        (md("", version="metadata:\n  version: '1.0'\n"), ["warning VERSION_FORM SKILL.md:5:12"], []),
    ],
)
def test_rules(found, text, strict, lenient):
    assert found(**{"SKILL.md": text}) == strict
    if lenient is not None:
        assert found("lenient", **{"SKILL.md": text}) == lenient


@pytest.mark.parametrize("level", ["strict", "lenient"])
@pytest.mark.parametrize("text", ["../shared/SKILL.md", "../../a-b/SKILL.md\n", "/srv/skills/demo/SKILL.md"])
def test_the_text_of_a_symbolic_link(found, text, level):
    assert found(level, **{"SKILL.md": text}) == ["error FRONTMATTER SKILL.md:1:1", "error SYMLINK_TEXT SKILL.md:1:1"]


def test_a_lower_case_skill_md(found):
    files = {"SKILL.md": None, "Skill.md": md("")}
    assert found(**files) == ["error SKILL_MD_CASE Skill.md"]
    assert found("lenient", **files) == ["warning SKILL_MD_CASE Skill.md"]


def test_all_findings_come_at_once(found):
    text = md("name: other\ndescription: d\nodd: x\nodder: x\nlicense: [MIT]\n", "", version="")
    assert [line.split()[1] for line in found(**{"SKILL.md": text})] == [
        "NAME_FOLDER",
        "FLOW_STYLE",
        "FIELD_FORM",
        "FIELD_UNKNOWN",
        "FIELD_UNKNOWN",
        "VERSION_MISSING",
        "BODY_EMPTY",
    ]


RUNTIME = '[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'


def test_unknown_fields(found):
    files = {"skill.toml": f'nmae = "x"\n{RUNTIME}mode = 1\n', "main.py": "def main(args): ...\n"}
    places = ["MANIFEST_UNKNOWN skill.toml:1:1", "MANIFEST_UNKNOWN skill.toml:5:1"]
    assert found(**files) == [f"error {place}" for place in places]
    assert found("lenient", **files) == [f"warning {place}" for place in places]


@pytest.mark.parametrize(
    ("file", "text", "fix"),
    [
        ("skill.toml", 'verison = "1.0.0"\n', "Did you mean version?"),
        ("skill.toml", "[permisions]\nnetwork = []\n", "Did you mean permissions?"),
        ("skill.toml", f'{RUNTIME}exprot = "main"\n', "Did you mean export?"),
        ("skill.toml", "zebra = 1\n", "Correct the name; skillwire explain --schema skill.toml lists the fields."),
        ("SKILL.md", "licence: MIT", "Did you mean license? Put your own fields under metadata."),
        ("SKILL.md", "zebra: MIT", "Correct the name. Put your own fields under metadata."),
    ],
)
def test_an_unknown_field_gets_the_one_that_is_meant(write, file, text, fix):
    if file == "SKILL.md":
        text = f"---\nname: notes\ndescription: d\n{text}\n---\n# B\n"
    files = {file: text, "main.py": "def main(args): ...\n"}
    [finding] = [one for one in check_folder(write(**files)).findings if one.code.endswith("_UNKNOWN")]
    assert finding.fix == fix


def test_the_entry_point_must_be_there(found):
    assert found(**{"skill.toml": RUNTIME}) == ["error ENTRYPOINT_ABSENT skill.toml:3:1"]
    assert found(**{"main.py": "def main(args): ...\n"}) == []


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("def main(args:\n", "main.py:1:9"),
        ("print 'x'\n", "main.py:1:1"),
        ("", "skill.toml:3:1"),
        ("def run(args): ...\n", "skill.toml:3:1"),
        ("class A:\n    def main(self): ...\n", "skill.toml:3:1"),
        ("(" * 5000 + ")" * 5000, "main.py:1:201"),
    ],
)
def test_code_that_can_never_run(found, code, place):
    files = {"skill.toml": RUNTIME, "main.py": code}
    assert found(**files) == [f"error ENTRYPOINT_BROKEN {place}"]
    assert found("lenient", **files) == [f"warning ENTRYPOINT_BROKEN {place}"]


@pytest.mark.parametrize(
    "code",
    [
        "async def main(args): ...\n", "main = lambda args: args\n", "from work import main\n",
        "from work import *\n", "try:\n    import main\nexcept ImportError:\n    pass\n",
        "globals()['main'] = print\n", "\ufeffdef main(args): ...\n", "def main(args): '\\d'\n",
    ],
)  # fmt: skip
def test_code_that_may_run(found, code):
    assert found(**{"skill.toml": RUNTIME, "main.py": code}) == []


def test_the_export_is_what_is_looked_for(found):
    files = {"skill.toml": f'{RUNTIME}export = "run"\n', "main.py": "def main(args): ...\n"}
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:4:1"]
    assert found(**{"main.py": "def run(args): ...\n"}) == []


def test_two_versions(found):
    assert found(**{"skill.toml": 'version = "1.0.0"\n'}) == []
    assert found(**{"skill.toml": 'version = "1.1.0"\n'}) == ["warning MANIFEST_DIFFERS skill.toml:1:1"]
    assert found("lenient", **{"skill.toml": 'version = "1.1.0"\n'}) == ["note MANIFEST_DIFFERS skill.toml:1:1"]


@pytest.mark.parametrize(
    ("field", "same", "other"),
    [("id", "a/b", "a/c"), ("access", "private", "public"), ("capability_type", "task", "api")],
)
def test_what_both_files_say_is_the_same(found, field, same, other):
    descriptor = json.dumps({field: same})
    assert found(**{"descriptor.json": descriptor, "skill.toml": f'{field} = "{same}"\n'}) == []
    assert found(**{"descriptor.json": descriptor, "skill.toml": f'{field} = "{other}"\n'}) == [
        "error DESCRIPTOR_DIFFERS descriptor.json:1"
    ]
