"""What our strict level accepts, other readers of SKILL.md accept, and they read the same in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import skills_ref
import yaml
from hypothesis import event, given
from hypothesis import strategies as st
from tests.interop.peers import PATIENCE, environment, find_peer, run
from tests.interop.skill_samples import write_samples

from skillwire.folder.load import check_folder

pytestmark = pytest.mark.deep
AGENTSKILLS = Path(sys.executable).parent / "agentskills"
TYPED_NAMES = ("404", "007", "0x1f", "1e5", "true", "false", "null", "2024-01-01")
NAMES = st.sampled_from(["a-skill", "a", "x" * 64, "3d-print", "no", "y", "1-2", *TYPED_NAMES])
METADATA_KEYS = ("version", "author", "org.example", "true", "12", "a b", "é", "'q'", "<<")
ORDINARY = st.sampled_from(
    ["a", "word", "Use", "when", "it's", "(c)", "日本", "é", "e\u0301", "😀", "--", "$d", "12", "1.0", "2024-01-01"]
)
# fmt: off
ODD = st.sampled_from([
    "x:", ":", "key:value", "http://x.y/z", "12:30:45", "#no", "# no", "'q'", "''", '"d"', "\\", "-", "[a]", "{b}",
    "%", "&a", "*b", "!t", "@", "`", "|", ">", "?", ",", ";", "=", "<<", "~", "true", "null", "\u00a0",
])
# fmt: on
WORDS = st.one_of(ORDINARY, ORDINARY, ORDINARY, ODD)
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join) | st.lists(WORDS, min_size=1, max_size=3).map("".join)
STYLES = ["plain", "plain", "single", "double", "folded", "block", "lines"]
LINES = st.lists(ORDINARY.filter(lambda word: '"' not in word and "\\" not in word), min_size=1, max_size=3)


@st.composite
def values(draw, indent):
    """Make a text in one of the styles of YAML, as it stands behind ``key:``."""
    text, style = draw(TEXTS), draw(st.sampled_from(STYLES))
    if style == "plain":
        return f" {text}"
    if style == "single":
        return " '{}'".format(text.replace("'", "''"))
    if style == "double":
        return ' "{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
    if style == "folded":
        return ' "{}"'.format(f"\n{draw(st.sampled_from(['', ' ', indent, indent + '  ']))}".join(draw(LINES)))
    start = draw(st.sampled_from([">", ">-", "|", "|+", ">2", ">#"])) if style == "block" else ""
    lines = draw(st.lists(TEXTS | st.just(""), min_size=1, max_size=3))
    return f" {start}" + "".join(f"\n{indent}  {line}" for line in lines)


@st.composite
def skills(draw):
    """Make a name, and a SKILL.md as people write it who do not know YAML."""
    name, quote = draw(NAMES), draw(st.sampled_from(["", "'", '"']))
    optional = draw(st.lists(st.sampled_from(["license", "compatibility", "allowed-tools"]), unique=True))
    fields = [f"name: {quote}{name}{quote}", *(f"{key}:{draw(values(''))}" for key in ["description", *optional])]
    if draw(st.booleans()):
        indent = draw(st.sampled_from([" ", "  ", "    "]))
        keys = draw(st.lists(st.sampled_from(METADATA_KEYS), min_size=1, max_size=3, unique=True))
        fields.append("metadata:" + "".join(f"\n{indent}{key}:{draw(values(indent))}" for key in keys))
    fields += draw(st.lists(st.sampled_from(["# comment", "", "  # indented", "license: twice"]), max_size=1))
    body = draw(st.sampled_from(["# Body\n", "", "text\n---\nmore\n", "no end of line"]))
    text = "\n".join(["---", *draw(st.permutations(fields)), "---", body])
    return name, text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


class JavaScriptReaders:
    """``yaml`` and ``js-yaml`` of npm, in one process that answers line by line."""

    def __init__(self, home):
        self._process = subprocess.Popen(
            find_peer("readers"), env=environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def read(self, text):
        """Return reader → what it finds in the frontmatter of ``text``."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        """End the process."""
        self._process.communicate(timeout=PATIENCE)


def typed_fields(folder):
    """Return the paths of the values that our rules call no text to every reader."""
    lines = {finding.place.line for finding in folder.findings if finding.code == "FRONTMATTER_TYPED"}
    return {path for path, place in folder.skill_md.places.items() if place.line in lines}


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    readers = JavaScriptReaders(tmp_path_factory.mktemp("readers"))
    yield readers
    readers.close()


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Give a function that returns a skill's folder and what our strict level reads there, or None if it refuses."""
    folder = tmp_path_factory.mktemp("skill")

    def load(name, text):
        path = folder / name
        path.mkdir(exist_ok=True)
        (path / "SKILL.md").write_bytes(text.encode())
        loaded = check_folder(path, level="strict").folder
        return path, loaded

    return load


class TestSkillsRef:
    """``skills-ref``, the reference validator; ``test_skills_ref.py`` has what it must accept."""

    def test_its_command_accepts_the_samples(self, tmp_path):
        write_samples(tmp_path / "skills")
        for path in (tmp_path / "skills").iterdir():
            assert check_folder(path, level="strict").folder is not None
            printed = run([str(AGENTSKILLS), "validate", str(path)], cwd=tmp_path, home=tmp_path)
            assert printed == f"Valid skill: {path}\n"

    @pytest.mark.parametrize(
        ("name", "frontmatter"),
        [
            ("日本語", "name: 日本語\ndescription: A name outside of ASCII."),
            ("con", "name: con\ndescription: A name that Windows keeps for a device."),
            ("a-skill", "name: a-skill\ndescription: Hidden\u2062 text."),
            ("a-skill", "name: a-skill\ndescription: An empty field.\nlicense:"),
        ],
    )
    def test_it_accepts_more(self, accepted, name, frontmatter):
        path, ours = accepted(name, f"---\n{frontmatter}\n---\n# Body\n")
        assert ours is None
        assert skills_ref.validate(path) == []


class TestJavaScript:
    """What the ``skills`` CLI, ``astro-skills`` and most agents read with."""

    @given(skills())
    def test_they_read_the_same_in_what_we_accept(self, accepted, javascript, skill):
        _, ours = accepted(*skill)
        event("refused" if ours is None else "accepted")
        typed = set() if ours is None else typed_fields(ours)
        for reader, theirs in javascript.read(skill[1]).items() if ours is not None else ():
            assert "error" not in theirs, reader
            for field in ("name", "description"):
                value = getattr(ours.skill_md, field)
                if (field,) not in typed:
                    assert theirs[field].strip() == value, reader

    @pytest.mark.parametrize("value", TYPED_NAMES)
    def test_a_name_that_yaml_takes_for_something_else_needs_quotes(self, accepted, javascript, value):
        text = "---\nname: {}\ndescription: d\n---\n# B\n"
        plain, quoted = text.format(value), text.format(f"'{value}'")
        assert javascript.read(plain)["js-yaml"]["name"] != value
        assert typed_fields(accepted(value, plain)[1]) == {("name",)}
        assert {theirs["name"] for theirs in javascript.read(quoted).values()} == {value}
        assert typed_fields(accepted(value, quoted)[1]) == set()


class TestPyYaml:
    """``yaml.safe_load``, which agents in Python read with: YAML 1.1."""

    @given(skills())
    def test_it_reads_the_same_in_what_we_accept(self, accepted, skill):
        _, ours = accepted(*skill)
        event("refused" if ours is None else "accepted")
        if ours is not None:
            theirs = yaml.safe_load(ours.skill_md.head)
            typed = typed_fields(ours)
            for field in ("name", "description"):
                if (field,) not in typed:
                    assert theirs[field].strip() == getattr(ours.skill_md, field)
