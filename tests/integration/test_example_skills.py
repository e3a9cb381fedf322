"""The example skills: their form, and every script run on real input as an agent would run it."""

import base64
import gzip
import json
import os
import re
import runpy
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
import zipfile
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
import skills_ref
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillwire.cli import main
from skillwire.cli.main import EXIT_INTERRUPTED, GROUPS, cli
from skillwire.codes import CODES
from skillwire.errors import SkillwireError

EXAMPLES = Path(__file__).parents[2] / "examples"
SKILLS = EXAMPLES / "skills"
NAMES = sorted(path.name for path in SKILLS.iterdir())
SCRIPTS = sorted(path for pattern in ("*/scripts/*", "*/code/*.py") for path in SKILLS.glob(pattern) if path.is_file())
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: Field → type. Spec: SSP 3.2 and 3.5.
DESCRIPTOR_REQUIRED = {
    "protocol": {"version": str},
    "id": str,
    "name": str,
    "version": str,
    "capability_type": str,
    "description": str,
    "provider": {"name": str},
    "endpoint": {"url": str, "method": str},
    "inputs": list,
    "output": {"content_type": str},
    "auth": {"type": str},
    "access": str,
}
DESCRIPTOR_OPTIONAL = {"tags", "documentation_url", "created_at", "updated_at"}


def run(script: str, *arguments: object, status: int = 0, stdin: str | bytes = "", cwd: Path | None = None) -> str:
    """Run a script of a skill by its executable bit; return what it says on the stream that fits ``status``."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [SKILLS / script, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PATH": search, "PYTHONWARNINGS": "error", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, err
    assert "Traceback" not in err
    return err if status else out


def files_of(name: str) -> list[Path]:
    return sorted(path for path in (SKILLS / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def frontmatter_and_body(name: str) -> tuple[str, str]:
    _, frontmatter, body = (SKILLS / name / "SKILL.md").read_text().split("---\n", 2)
    return frontmatter, body


def example(name: str, language: str, number: int = 0) -> str:
    """Return a fenced example of a skill's text, without the indent of a list."""
    fences = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", frontmatter_and_body(name)[1], re.MULTILINE | re.DOTALL)
    indent, text = fences[number]
    return re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


def test_there_are_enough_of_each_form():
    assert len(NAMES) >= 10
    assert sum(len(files_of(name)) == 1 for name in NAMES) >= 3
    for pattern in ("*/scripts/*.py", "*/scripts/*.sh", "*/references/*.md", "*/skill.toml", "*/descriptor.json"):
        assert list(SKILLS.glob(pattern)), pattern


def test_the_readme_lists_exactly_the_skills():
    rows = re.findall(
        r"^\| \[([^]]+)\]\(skills/([^/]+)/SKILL\.md\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    assert rows == [(name, name) for name in NAMES]


def test_the_readme_describes_every_binary_asset():
    assets = {str(path.relative_to(SKILLS)) for path in SKILLS.glob("*/assets/*")}
    assert assets == set(re.findall(r"^\| `(\S+/assets/\S+)`", (EXAMPLES / "README.md").read_text(), re.MULTILINE))


def test_all_of_them_are_light():
    assert sum(path.stat().st_size for name in NAMES for path in files_of(name)) < 300_000


@pytest.mark.parametrize("name", NAMES)
class TestForm:
    def test_the_reference_validator_accepts_it(self, name):
        assert skills_ref.validate(SKILLS / name) == []

    def test_the_frontmatter_has_the_agreed_fields_and_reads_the_same_everywhere(self, name):
        frontmatter, _ = frontmatter_and_body(name)
        fields = yaml.safe_load(frontmatter)
        assert fields == skills_ref.read_properties(SKILLS / name).to_dict()
        assert set(fields) <= FIELDS
        assert fields["name"] == name
        assert fields["license"] == "Apache-2.0"
        assert fields["metadata"] == {"version": "1.0.0", "author": "skillwire"}
        assert "---" not in frontmatter

    def test_the_description_says_when_to_use_it(self, name):
        description = skills_ref.read_properties(SKILLS / name).description
        assert re.search(r"\. Use |^Use", description)
        assert 150 <= len(description) <= 1024

    def test_the_body_is_short_enough_to_load(self, name):
        _, body = frontmatter_and_body(name)
        assert body.count("\n") < 200
        assert len(body) / 4 < 5_000  # tokens, roughly
        assert "\n---" not in body

    def test_links_resolve_inside_the_skill_and_one_level_deep(self, name):
        for path in files_of(name):
            if path.suffix == ".md":
                for target in LINK.findall(path.read_text()):
                    linked = path.parent / target
                    assert linked.is_file(), target
                    assert SKILLS / name in linked.resolve().parents
                    assert target.count("/") <= 1

    def test_the_body_names_every_other_file(self, name):
        _, body = frontmatter_and_body(name)
        for path in files_of(name):
            relative = path.relative_to(SKILLS / name).as_posix()
            assert relative == "SKILL.md" or relative in body, relative

    def test_the_body_names_no_script_that_is_missing(self, name):
        _, body = frontmatter_and_body(name)
        named = re.findall(r"(?<![\w./])(?:scripts|code|assets|references)/[\w./-]+\w", body)
        if name == "skillwire-cli":
            named.remove("scripts/csv_profile.py")  # a file of another skill, which it prints
        assert not [relative for relative in named if not (SKILLS / name / relative).is_file()]

    def test_paths_and_texts_are_plain(self, name):
        for path in files_of(name):
            relative = path.relative_to(SKILLS).as_posix()
            assert relative.isascii()
            assert len(relative) <= 100
            assert not path.is_symlink()
            if "assets" not in path.parts:
                text = path.read_bytes()
                assert text.isascii(), relative
                assert b"\r" not in text
                assert b"\t" not in text
                assert text.endswith(b"\n")


@pytest.mark.parametrize("script", [str(path.relative_to(SKILLS)) for path in SCRIPTS])
class TestEveryScript:
    def test_explains_itself(self, script):
        said = run(script, "--help")
        assert said.startswith("usage: " + Path(script).name)

    def test_refuses_what_it_does_not_know(self, script):
        assert run(script, "--no-such-option", status=2)

    def test_is_executable_by_its_first_line(self, script):
        path = SKILLS / script
        assert path.read_text().splitlines()[0] in ("#!/usr/bin/env python3", "#!/bin/sh")
        assert path.stat().st_mode & 0o111


class TestCsvProfile:
    SCRIPT = "csv-profile/scripts/csv_profile.py"
    ORDERS = (
        "id;zip;amount;placed;note;\r\n"
        "1;00417;1,50;03/04/2026; hi ;x\r\n"
        "2;10115;2,00;05/06/2026;;x\r\n"
        "2;10115;2,00;05/06/2026;;x\r\n"
        "\r\n"
        '3;1;abc;01/02/2026;"two\r\nlines"\r\n'
    )

    def profile(self, text: str, *options: str) -> dict:
        return json.loads(run(self.SCRIPT, "--json", *options, "-", stdin=text))

    def test_names_every_structural_problem_with_its_lines(self):
        profile = self.profile("\ufeff" + self.ORDERS)
        found = {(problem["code"], problem["column"]): problem["lines"] for problem in profile["problems"]}
        assert profile["rows"] == 4
        assert profile["delimiter"] == ";"
        assert found == {
            ("empty-names", None): [1],
            ("ragged-rows", None): [7],
            ("blank-lines", None): [5],
            ("duplicate-rows", None): [4],
            ("leading-zeros", "zip"): [2],
            ("mixed-types", "amount"): [7],
            ("decimal-comma", "amount"): [2, 3, 4],
            ("ambiguous-dates", "placed"): [2, 3, 4, 7],
            ("padded-cells", "note"): [],
            ("mostly-missing", "note"): [],
            ("constant", "column6"): [],
        }

    def test_every_problem_has_a_remedy(self):
        remedies = (SKILLS / "csv-profile/references/remedies.md").read_text()
        code = (SKILLS / self.SCRIPT).read_text()
        codes = set(re.findall(r'(?:_problem\(|"code": )"([a-z-]+)"|\("([a-z-]+)", self', code))
        codes = {one or other for one, other in codes}
        assert {"ragged-rows", "mixed-types", "outliers"} < codes
        assert not {code for code in codes if f"`{code}`" not in remedies}

    def test_figures_and_outliers(self):
        rows = [f"{number},{number / 4},2026-01-{number:02}" for number in range(1, 21)]
        profile = self.profile("\n".join(["count,share,day", *rows, "9007199254740993,0.5,2026-01-30"]))
        count, share, day = profile["columns"]
        assert (count["type"], count["min"], count["max"], count["outliers"]) == ("integer", 1, 9007199254740993, 1)
        assert (share["type"], share["min"], share["max"], share["median"]) == ("decimal", 0.25, 5.0, 2.5)
        assert (day["type"], day["min"], day["max"], day["distinct"]) == ("date", "2026-01-01", "2026-01-30", 21)
        assert [problem["lines"] for problem in profile["problems"]] == [[22]]

    def test_a_day_above_twelve_decides_a_date(self):
        assert self.profile("day\n03/04/2026\n25/04/2026\n")["problems"] == []

    def test_stops_at_the_row_limit_and_says_so(self):
        profile = self.profile("a,b\n" + "1,2\n3,4\n" * 5, "--max-rows", "3")
        assert (profile["rows"], profile["truncated"]) == (3, True)

    def test_text_for_people(self, tmp_path):
        path = tmp_path / "t.tsv"
        path.write_text("name\tage\nAda\t36\nBo\tn/a\n")
        assert run(self.SCRIPT, path) == (
            "2 rows, 2 columns, delimiter tab\n\nproblems:\n  mostly-missing [age]: 1 of 2 are missing\n\ncolumns:\n"
            "  name: text, filled 2, missing 0, distinct 2, longest 3\n"
            "  age: integer, filled 1, missing 1, distinct 1, longest 3, "
            "min 36, max 36, mean 36, median 36, outliers 0\n"
        )

    @pytest.mark.parametrize(
        ("content", "options", "said"),
        [
            (b"a,b\n1,\xe9\n", (), "line 2, byte 3 is not utf-8; try --encoding"),
            (b"", (), "the file is empty"),
            (b'a,b\n"open,1\n', (), "line 2: unexpected end of data"),
            (b"a\n", ("--encoding", "utf-99"), "unknown encoding 'utf-99'"),
            (b"a\n", ("--delimiter", '"'), "--delimiter needs exactly one character"),
        ],
    )
    def test_says_where_it_cannot_read(self, content, options, said):
        assert said in run(self.SCRIPT, *options, "-", status=2, stdin=content)

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
    def test_other_encodings(self, encoding):
        text = "name,city\nZo\u00eb,Freiburg\n".encode(encoding)
        assert "name: text" in run(self.SCRIPT, "--encoding", encoding, "-", stdin=text)


class TestLogTriage:
    SCRIPT = "log-triage/scripts/log_triage.py"
    LOG = """\
2026-03-01 10:00:00,100 INFO started worker 12
2026-03-01 10:00:05,100 ERROR request 77 failed for user 'bob' from 10.0.0.7: timeout after 30s
2026-03-01 10:01:06,100 ERROR request 78 failed for user 'eve' from 10.0.0.8: timeout after 31s
2026-03-01 10:01:07,200 INFO handling job 7
Traceback (most recent call last):
  File "job.py", line 3, in run
    go()
ValueError: bad thing 7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 5, in run
KeyError: 'zip'
2026-03-01T10:04:00Z ERROR java.lang.IllegalStateException: closed
 at com.example.Job.run(Job.java:12)
Caused by: java.io.IOException: pipe
 ... 12 more
{"time":"2026-03-01T10:05:00Z","level":"error","msg":"job 4f3a2b1c9d failed"}
time="2026-03-01T10:06:00Z" level=warning msg="slow answer"
Mar  1 10:07:01 host kernel: Out of memory: Killed process 812 (python3)
10.1.1.1 - - [01/Mar/2026:10:08:00 +0000] "GET / HTTP/1.1" 200 12
10.1.1.1 - - [01/Mar/2026:10:08:09 +0000] "GET / HTTP/1.1" 503 12
"""

    def triage(self, *arguments: object, stdin: str = "") -> dict:
        return json.loads(run(self.SCRIPT, "--json", *arguments, stdin=stdin))

    def test_groups_what_differs_only_in_values(self):
        found = self.triage("-", stdin=self.LOG)
        assert (found["records"], found["groups"]) == (10, 7)
        assert [(group["level"], group["count"], group["fingerprint"]) for group in found["problems"]] == [
            ("ERROR", 2, "request <n> failed for user <str> from <ip>: timeout after <n>s"),
            ("ERROR", 1, "handling job <n> KeyError: <str>"),
            ("ERROR", 1, "java.lang.IllegalStateException: closed Caused by: java.io.IOException: pipe"),
            ("ERROR", 1, "job <hex> failed"),
            ("ERROR", 1, "host kernel: Out of memory: Killed process <n> (python3)"),
            ("ERROR", 1, "<ip> - - <str> <n> <n>"),
            ("WARN", 1, "slow answer"),
        ]

    def test_tells_place_times_and_a_whole_example(self):
        first, trace, *_ = self.triage("-", stdin=self.LOG)["problems"]
        assert (first["place"], first["first"], first["last"]) == (
            "stdin:2",
            "2026-03-01 10:00:05,100",
            "2026-03-01 10:01:06,100",
        )
        assert first["busiest"] == {"minute": "2026-03-01 10:00", "count": 1}
        assert trace["example"][0].endswith("handling job 7")
        assert trace["example"][-1] == "KeyError: 'zip'"

    def test_a_baseline_leaves_only_what_is_new(self, tmp_path):
        good = tmp_path / "good.log.gz"
        good.write_bytes(gzip.compress("".join(self.LOG.splitlines(keepends=True)[:3]).encode()))
        found = self.triage("--baseline", good, "-", stdin=self.LOG)
        assert (found["groups"], found["known"]) == (6, 1)
        assert "request" not in found["problems"][0]["fingerprint"]

    def test_text_for_people(self):
        said = run(self.SCRIPT, "--top", "1", "--lines", "-", stdin=self.LOG).splitlines()
        assert said[0] == "10 records, 7 groups of problems"
        assert said[2].startswith("2 x ERROR  request <n> failed")
        assert said[4].startswith("    | 2026-03-01 10:00:05,100 ERROR request 77")
        assert said[-1] == "6 more groups: --top shows them"

    def test_a_file_that_cannot_be_read(self, tmp_path):
        broken = tmp_path / "broken.gz"
        broken.write_bytes(b"no gzip")
        assert "Not a gzipped file" in run(self.SCRIPT, broken, status=2)
        assert "No such file" in run(self.SCRIPT, tmp_path / "none.log", status=2)


class TestReleaseNotes:
    SCRIPT = "release-notes/scripts/release_notes.py"

    @pytest.fixture
    def repository(self, tmp_path):
        def git(*words: str) -> str:
            command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *words]
            return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

        def commit(message: str) -> str:
            git("commit", "--quiet", "--allow-empty", "--message", message)
            return git("rev-parse", "HEAD")

        git("init", "--quiet", "--initial-branch=main")
        commit("feat: the beginning")
        git("tag", "v1.4.2")
        commit("fix(export): accounts without a time zone (#812)")
        commit("chore: tidy")
        commit("Say hello in Welsh")
        wrong = commit("feat: a mistake")
        commit(f'Revert "feat: a mistake"\n\nThis reverts commit {wrong}.')
        commit("feat(api)!: refuse large pages\n\nBREAKING CHANGE: a page_size\nabove 500 is answered with 400.")
        return tmp_path

    def test_sorts_what_came_after_the_last_tag(self, repository):
        said = run(self.SCRIPT, "--repo-url", "https://example.com/p/", cwd=repository)
        assert re.sub(r"\([0-9a-f]{9}\)", "(HASH)", said) == (
            "## v2.0.0\n\n"
            "### Breaking changes\n\n- api: refuse large pages (HASH)\n"
            "  a page_size above 500 is answered with 400.\n\n"
            "### Fixed\n\n- export: accounts without a time zone "
            "([#812](https://example.com/p/issues/812)) (HASH)\n\n"
            "### Other changes\n\n- Say hello in Welsh (HASH)\n\n"
            "Left out: 1 internal commits (--all lists them).\n\nAuthors: Ada.\n"
        )

    def test_a_range_and_json(self, repository):
        found = json.loads(
            run(self.SCRIPT, "--repo", repository, "--json", "--all", "--from", "v1.4.2", "--to", "HEAD~4")
        )
        assert [commit["text"] for commit in found["commits"]] == ["tidy", "accounts without a time zone (#812)"]
        assert found["suggested_version"] == "v1.4.3"

    def test_without_a_tag_the_whole_history_counts(self, repository):
        found = json.loads(run(self.SCRIPT, "--repo", repository, "--json", "--to", "v1.4.2"))
        assert [commit["section"] for commit in found["commits"]] == ["feat"]
        assert (found["from"], found["suggested_version"]) == (None, None)

    def test_what_it_cannot_do(self, repository, tmp_path_factory):
        assert "unknown revision 'v9'" in run(self.SCRIPT, "--from", "v9", status=2, cwd=repository)
        assert "unknown revision '--exec=x'" in run(self.SCRIPT, "--from=--exec=x", status=2, cwd=repository)
        assert "no commits" in run(self.SCRIPT, "--from", "HEAD", status=2, cwd=repository)
        assert "not a git repository" in run(self.SCRIPT, status=2, cwd=tmp_path_factory.mktemp("plain"))


class TestImageContactSheet:
    SCRIPT = "image-contact-sheet/scripts/contact_sheet.py"
    ASSET = SKILLS / "image-contact-sheet/assets/unreadable.png"
    #: The smallest real files of each kind; of the JPEG only what stands before the pixels.
    IMAGES = (
        ("dot.gif", base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"), "gif", 1, 1),
        ("dot.webp", base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="), "webp", 1, 1),
        ("wide.jpg", bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0001108000300050301"), "jpeg", 5, 3),
        (
            "tall.bmp",
            b"BM" + bytes(12) + (40).to_bytes(4, "little") + b"\2\0\0\0\xfc\xff\xff\xff" + bytes(8),
            "bmp",
            2,
            4,
        ),
    )

    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / "images"
        folder.mkdir()
        for name, content, *_ in self.IMAGES:
            (folder / name).write_bytes(content)
        return folder

    def test_measures_every_kind(self, folder):
        found = json.loads(run(self.SCRIPT, "--list", "--json", folder))
        measured = {(image["path"], image["kind"], image["width"], image["height"]) for image in found}
        assert measured == {(name, *rest) for name, _, *rest in self.IMAGES}
        assert not [image for image in found if image["problems"]]

    def test_names_what_is_wrong(self, folder):
        (folder / "sub").mkdir()
        shutil.copy(self.ASSET, folder / "a.png")
        shutil.copy(self.ASSET, folder / "sub" / "b.jpg")
        (folder / "c.gif").touch()
        (folder / "d.webp").write_text("<html>not found</html>")
        (folder / "huge.gif").write_bytes(b"GIF89a\xff\xff\xff\xff")
        found = json.loads(run(self.SCRIPT, "--list", "--json", "--recursive", folder))
        assert {image["path"]: image["problems"] for image in found if image["problems"]} == {
            "sub/b.jpg": ["wrong-extension: is png", "duplicate: of a.png"],
            "c.gif": ["empty"],
            "d.webp": ["unreadable"],
            "huge.gif": ["large"],
        }
        assert run(self.SCRIPT, "--list", folder).endswith("8 images, 3 with problems\n")

    def test_the_page_links_escapes_and_stands_in_for_broken_images(self, folder, tmp_path):
        (folder / "dot.gif").rename(folder / 'a <b> #1".gif')
        (folder / "broken.png").write_bytes(b"?")
        page = tmp_path / "sheet.html"
        run(self.SCRIPT, folder, "-o", page, "--title", "<script>")
        text = page.read_text()
        assert 'src="images/a%20%3Cb%3E%20%231%22.gif"' in text
        assert "a &lt;b&gt; #1&quot;.gif" in text
        assert "<title>&lt;script&gt;</title>" in text
        assert base64.b64encode(self.ASSET.read_bytes()).decode() in text

    def test_embedding_makes_the_page_complete(self, folder, tmp_path):
        page = tmp_path / "sheet.html"
        run(self.SCRIPT, folder, "-o", page, "--embed")
        sources = re.findall(r'<img [^>]*src="([^"]+)"', page.read_text())
        assert sorted(base64.b64decode(source.split("base64,")[1]) for source in sources) == sorted(
            content for _, content, *_ in self.IMAGES
        )

    def test_never_replaces_a_page_unasked(self, folder, tmp_path):
        page = tmp_path / "sheet.html"
        page.write_text("mine")
        assert "exists; --force" in run(self.SCRIPT, folder, "-o", page, status=2)
        assert page.read_text() == "mine"
        run(self.SCRIPT, folder, "-o", page, "--force")
        assert page.read_text() != "mine"

    def test_what_it_cannot_do(self, tmp_path):
        assert "no PNG" in run(self.SCRIPT, "--list", tmp_path, status=2)
        assert "no such folder" in run(self.SCRIPT, "--list", tmp_path / "none", status=2)


class TestLetterDocx:
    SCRIPT = "letter-docx/scripts/fill_letter.py"
    TEMPLATE = SKILLS / "letter-docx/assets/letter.docx"

    @pytest.fixture
    def values(self, tmp_path):
        path = tmp_path / "values.json"
        path.write_text(example("letter-docx", "json"))
        return path

    def test_the_example_fills_the_built_in_letter(self, values, tmp_path):
        letter = tmp_path / "letter.docx"
        run(self.SCRIPT, "-o", letter, values)
        given_values = json.loads(values.read_text())
        wanted = [line for value in given_values.values() for line in (value if isinstance(value, list) else [value])]
        assert run(self.SCRIPT, "--text", letter) == "\n".join(wanted) + "\n"
        assert list(json.loads(run(self.SCRIPT, "--list"))) == list(given_values)

    def test_only_the_text_changes_and_stays_well_formed(self, values, tmp_path):
        hard = json.loads(values.read_text()) | {"subject": 'A & B <w:p> "quoted" {{body}}', "closing": "one\ntwo"}
        values.write_text(json.dumps(hard))
        letter = tmp_path / "letter.docx"
        run(self.SCRIPT, values, "-o", letter)
        with zipfile.ZipFile(letter) as filled, zipfile.ZipFile(self.TEMPLATE) as template:
            assert filled.testzip() is None
            assert filled.namelist() == template.namelist()
            changed = [name for name in filled.namelist() if filled.read(name) != template.read(name)]
            document = ET.fromstring(filled.read("word/document.xml"))  # noqa: S314  # our own output
        assert changed == ["word/document.xml"]
        assert 'A & B <w:p> "quoted" {{body}}' in "".join(document.itertext())
        assert 'A & B <w:p> "quoted" {{body}}\n' in run(self.SCRIPT, "--text", letter)

    def test_reports_every_wrong_value_at_once_and_writes_nothing(self, values, tmp_path):
        wrong = json.loads(values.read_text()) | {"colour": "red", "body": 3, "closing": "\x07"}
        del wrong["subject"]
        values.write_text(json.dumps(wrong))
        said = run(self.SCRIPT, values, "-o", tmp_path / "letter.docx", status=2)
        for line in (
            "missing: subject",
            "not in the template: colour",
            "body: must be a text",
            "closing: holds a control",
        ):
            assert line in said
        assert not (tmp_path / "letter.docx").exists()

    def test_a_placeholder_in_pieces_is_refused_with_the_remedy(self, tmp_path):
        own = tmp_path / "own.docx"
        with zipfile.ZipFile(own, "w") as archive:
            archive.writestr("word/document.xml", "<w:p><w:r><w:t>{{na</w:t></w:r><w:r><w:t>me}}</w:t></w:r></w:p>")
        assert "stored in pieces: {{name}}" in run(self.SCRIPT, "--list", "--template", own, status=2)

    def test_never_replaces_a_document_unasked(self, values):
        assert "exists; --force" in run(self.SCRIPT, values, "-o", values, status=2)

    def test_what_is_no_document(self, values, tmp_path):
        assert "is no .docx file" in run(self.SCRIPT, "--text", values, status=2)
        other = tmp_path / "other.zip"
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("a.txt", "a")
        assert "no word/document.xml" in run(self.SCRIPT, "--text", other, status=2)


class TestSqliteQueryReview:
    SCRIPT = "sqlite-query-review/scripts/explain_query.py"
    SHOP = SKILLS / "sqlite-query-review/assets/shop.sqlite"
    QUERY = "SELECT * FROM orders WHERE customer_id = ? ORDER BY placed_at DESC"

    def codes(self, database: Path, sql: str) -> list[str]:
        (planned,) = json.loads(run(self.SCRIPT, database, "--json", sql))
        return [finding["code"] for finding in planned["findings"]]

    def test_the_sample_is_sound_and_as_described(self):
        shop = sqlite3.connect(f"file:{self.SHOP}?mode=ro&immutable=1", uri=True)
        try:
            assert shop.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert shop.execute("PRAGMA foreign_key_check").fetchall() == []
            tables = "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders), count(*) FROM order_items"
            counts = shop.execute(tables).fetchone()
        finally:
            shop.close()
        assert counts == (40, 200, 305)

    def test_the_practice_query_scans_and_sorts_until_it_has_its_index(self, tmp_path):
        assert self.codes(self.SHOP, self.QUERY) == ["full-scan", "temp-sort"]
        copy = tmp_path / "copy.sqlite"
        shutil.copy(self.SHOP, copy)
        with sqlite3.connect(copy) as shop:
            shop.execute("CREATE INDEX orders_customer ON orders(customer_id, placed_at)")
        shop.close()
        assert self.codes(copy, self.QUERY) == []
        assert "index orders_customer on customer_id, placed_at" in run(self.SCRIPT, copy, "--schema")

    def test_a_correlated_subquery_is_the_worst_of_all(self):
        orders = "SELECT count(*) FROM orders o WHERE o.customer_id = c.id"
        sql = f"SELECT name, ({orders}) FROM customers c WHERE city = :city"  # noqa: S608  # made of constants
        said = run(self.SCRIPT, self.SHOP, sql)
        findings = [line for line in said.splitlines() if "!!" in line]
        assert [line.split()[1] for line in findings] == ["correlated-subquery:", "full-scan:", "full-scan:"]
        assert "about 200 rows of orders, again for each row of an outer loop" in findings[1]
        assert "about 40 rows of customers" in findings[2]

    def test_several_statements_from_a_file_minding_texts_and_comments(self, tmp_path):
        script = tmp_path / "queries.sql"
        script.write_text("-- first;\nSELECT 'a;?' , ?;\n/* second */ DELETE FROM orders WHERE id = 3;\n")
        planned = json.loads(run(self.SCRIPT, self.SHOP, "--json", "--file", script))
        assert [item["statement"] for item in planned] == ["SELECT 'a;?' , ?", "DELETE FROM orders WHERE id = 3"]

    def test_plans_and_never_runs(self):
        before = self.SHOP.read_bytes()
        run(self.SCRIPT, self.SHOP, "DELETE FROM orders; UPDATE customers SET name = 'x'")
        for sql in ("DROP TABLE orders", "PRAGMA user_version = 7", "ATTACH 'x.db' AS x", "VACUUM"):
            assert "have a plan" in run(self.SCRIPT, self.SHOP, sql, status=2)
        assert self.SHOP.read_bytes() == before
        assert sorted(path.name for path in self.SHOP.parent.iterdir()) == ["shop.sqlite"]

    def test_what_it_cannot_do(self, tmp_path):
        assert "syntax error" in run(self.SCRIPT, self.SHOP, "SELECT FROM", status=2)
        assert "not a database" in run(self.SCRIPT, SKILLS / self.SCRIPT, "SELECT 1", status=2)
        assert "no such file" in run(self.SCRIPT, tmp_path / "none.db", "SELECT 1", status=2)
        assert "no statement" in run(self.SCRIPT, self.SHOP, ";", status=2)


class TestDiskFullTriage:
    SCRIPT = "disk-full-triage/scripts/disk-report.sh"

    def test_names_the_largest_directories_and_files(self, tmp_path):
        (tmp_path / "big one").mkdir()
        (tmp_path / "big one" / "data.bin").write_bytes(os.urandom(3 << 20))
        (tmp_path / "small.bin").write_bytes(os.urandom(1 << 10))
        said = run(self.SCRIPT, "-n", "2", tmp_path)
        directories = said.split("== largest directories\n")[1].split("\n\n")[0].splitlines()
        assert [line.split("MiB  ")[1] for line in directories] == [str(tmp_path), str(tmp_path / "big one")]
        files = said.split("== largest files\n")[1].splitlines()
        assert re.fullmatch(rf" +3\.\d MiB  {re.escape(str(tmp_path))}/big one/data\.bin", files[0])
        assert "small.bin" not in said
        assert re.search(r"blocks: \d+% used", said)

    def test_changes_nothing_and_leaves_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        run(self.SCRIPT, tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("-n", "x"), "-n needs a number"),
            (("-n",), "-n needs"),
            (("/no/such",), "no such directory"),
            (("a", "b"), "one"),
        ],
    )
    def test_what_it_cannot_do(self, arguments, said):
        assert said in run(self.SCRIPT, *arguments, status=2)


class TestWorkingDays:
    SCRIPT = "working-days/code/main.py"
    MAIN = staticmethod(runpy.run_path(str(SKILLS / "working-days/code/main.py"))["main"])
    DATES = st.dates(date(1900, 1, 1), date(2100, 1, 1))

    def test_the_example_gives_what_the_skill_says(self):
        (call,) = re.findall(r"main\.py '(.*)'", example("working-days", "sh"))
        assert self.MAIN(json.loads(call)) == json.loads(example("working-days", "json"))
        assert json.loads(run(self.SCRIPT, call)) == json.loads(run(self.SCRIPT, "-", stdin=call))

    @pytest.mark.parametrize(
        ("start", "days", "end"),
        [
            ("2026-03-13", 1, "2026-03-16"),  # Friday to Monday
            ("2026-03-16", -1, "2026-03-13"),
            ("2026-03-14", 0, "2026-03-16"),  # the first working day from a Saturday on
            ("2026-03-16", 0, "2026-03-16"),
            ("2024-02-28", 2, "2024-03-01"),  # over a leap day
        ],
    )
    def test_known_dates(self, start, days, end):
        assert self.MAIN({"start": start, "days": days})["end"] == end

    @given(DATES, st.integers(-300, 300).filter(bool), st.sets(DATES, max_size=5))
    def test_counting_takes_back_going(self, start, days, holidays):
        listed = [start + timedelta(days=3), *holidays]
        common = {"start": start.isoformat(), "holidays": [day.isoformat() for day in listed]}
        went = self.MAIN({**common, "days": days})
        counted = self.MAIN({**common, "end": went["end"]})
        assert counted == went
        assert counted["working_days"] == days
        end = date.fromisoformat(went["end"])
        assert end.weekday() < 5
        assert end not in listed

    @given(DATES, st.integers(0, 400))
    def test_counting_is_what_counting_by_hand_gives(self, start, length):
        end = start + timedelta(days=length)
        by_hand = sum((start + timedelta(days=day)).weekday() in (6, 0, 1, 2, 3) for day in range(1, length + 1))
        assert (
            self.MAIN({"start": str(start), "end": str(end), "weekend": ["Friday", "Saturday"]})["working_days"]
            == by_hand
        )

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            ([1], "must be an object"),
            ({}, "start: an ISO date is required"),
            ({"start": "2026-01-01"}, "either days or end"),
            ({"start": "2026-01-01", "days": 1, "end": "2026-01-02"}, "either days or end"),
            ({"start": "2026-01-01", "days": 1, "colour": 1}, "unknown argument: colour"),
            ({"start": "2026-02-30", "days": 1}, "start: '2026-02-30' is not an ISO date"),
            ({"start": "2026-W01-1", "days": 1}, "is not an ISO date"),
            ({"start": "2026-01-01", "days": True}, "days: True is not a whole number"),
            ({"start": "2026-01-01", "days": 20_001}, "is not a whole number from"),
            ({"start": "9999-12-30", "days": 10}, "out of bounds"),
            ({"start": "0001-01-01", "end": "9999-12-31"}, "more than"),
            ({"start": "2026-01-01", "days": 1, "holidays": "2026-01-02"}, "holidays: expected a list"),
            ({"start": "2026-01-01", "days": 1, "weekend": ["Caturday"]}, "weekend: 'Caturday'"),
        ],
    )
    def test_refuses_with_the_name_of_the_argument(self, args, said):
        with pytest.raises(ValueError, match=re.escape(said)):
            self.MAIN(args)
        assert said in run(self.SCRIPT, json.dumps(args), status=2)

    def test_the_manifest_fits_the_code(self):
        manifest = tomllib.loads((SKILLS / "working-days/skill.toml").read_text())
        assert manifest["name"] == f"{manifest['namespace']}.working.days"
        assert (manifest["version"], manifest["kind"]) == ("1.0.0", "action")
        assert manifest["permissions"] == {"network": [], "secrets": []}
        runtime = manifest["runtime"]
        assert runtime["language"] == "python"
        code = runpy.run_path(str(SKILLS / "working-days" / runtime["entrypoint"]))
        assert callable(code[runtime["export"]])
        assert set(manifest["inputs"]) == code["INPUTS"]
        assert all({"type", "description"} <= set(given) for given in manifest["inputs"].values())
        assert [name for name, given in manifest["inputs"].items() if given.get("required")] == ["start"]


class TestWeatherForecast:
    @pytest.fixture
    def descriptor(self):
        return json.loads((SKILLS / "weather-forecast/descriptor.json").read_bytes())

    def test_every_required_field_is_there(self, descriptor):
        for field, shape in DESCRIPTOR_REQUIRED.items():
            if isinstance(shape, dict):
                assert {name: type(descriptor[field][name]) for name in shape} == shape, field
            else:
                assert type(descriptor[field]) is shape, field
        assert set(descriptor) <= set(DESCRIPTOR_REQUIRED) | DESCRIPTOR_OPTIONAL
        assert descriptor["capability_type"] in ("plugin", "api", "knowledge", "task")
        assert descriptor["access"] in ("public", "restricted", "private")
        assert descriptor["auth"]["type"] in ("api_key", "oauth2", "custom", "none")
        assert descriptor["endpoint"]["method"] in ("GET", "POST", "PUT", "DELETE")
        for parameter in descriptor["inputs"]:
            assert {"name", "type", "description", "required"} <= set(parameter)

    def test_every_address_is_of_the_reserved_domain(self, descriptor):
        hosts = set(re.findall(r"https?://([^/\"]+)", json.dumps(descriptor)))
        assert hosts == {"weather.example.com", "api.weather.example.com"}
        assert all("{execution_id}" in descriptor["endpoint"][name] for name in ("status_url", "result_url"))

    def test_the_text_and_the_descriptor_agree(self, descriptor):
        _, body = frontmatter_and_body("weather-forecast")
        request = json.loads(example("weather-forecast", "json", 0))
        assert request["skill_id"] == descriptor["id"]
        inputs = {parameter["name"]: parameter for parameter in descriptor["inputs"]}
        assert (
            set(request["inputs"])
            == set(inputs)
            == set(re.findall(r"^\| `(\w+)` \| \w+ \| (?:yes|no)", body, re.MULTILINE))
        )
        assert descriptor["auth"]["header"] in body
        assert descriptor["version"] == "1.0.0"

    def test_the_shown_output_fits_the_schema(self, descriptor):
        jsonschema_rs = pytest.importorskip("jsonschema_rs")
        schema = descriptor["output"]["schema"]
        jsonschema_rs.validate(schema, json.loads(example("weather-forecast", "json", 1)))
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(schema, {"forecasts": []})


class TestSkillwireCli:
    """The skill that teaches this very command: what it shows is what there is."""

    BODY = frontmatter_and_body("skillwire-cli")[1]
    CALLS = sorted(set(re.findall(r"(?:^|`)skillwire ([a-z][^`#\n]*)", BODY, re.MULTILINE)))

    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        (tmp_path / "skills").mkdir()
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.usefixtures("project")
    def test_the_command_takes_what_is_shown(self, call):
        name, *arguments = shlex.split(call)
        context = cli.make_context("skillwire", [name, *arguments])
        _, command, rest = cli.resolve_command(context, [name, *arguments])
        while isinstance(command, click.Group) and not (command.invoke_without_command and rest[0].startswith("-")):
            _, command, rest = command.resolve_command(context, rest)
        assert command is not None
        command.make_context(name, rest, parent=context)

    def test_it_shows_every_command(self):
        named = {call.split()[0] for call in self.CALLS}
        assert named == {name for section in GROUPS.values() for name in section}

    def test_the_codes_that_it_names_exist(self):
        named = set(re.findall(r"`([A-Z]+_[A-Z_]+|[A-Z]{6,})`", self.BODY)) - {"SKILLWIRE_TOKENS"}
        assert len(named) >= 5
        assert named <= set(CODES)

    def test_the_exit_codes_are_those_of_the_errors(self):
        told = {int(code) for code in re.findall(r"^\| (\d+) \|", self.BODY, re.MULTILINE)}
        errors = {kind.exit_code for kind in SkillwireError.__subclasses__()}
        assert told == {0, CODES["INTERNAL"].exit_code, EXIT_INTERRUPTED} | errors

    def test_check_finds_nothing(self, capsys):
        assert main.run(["check", str(SKILLS / "skillwire-cli")]) == 0
        assert capsys.readouterr().out.endswith(": no findings\n")
