"""Whatever a folder holds, reading and judging it raises nothing but the errors that bytes may raise."""

import contextlib
import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import DecodeError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.lint.site import SCHEMA_URI, examine_index
from skillwire.folder.load import check_folder
from skillwire.folder.manifest import parse_manifest
from skillwire.folder.report import json_document, sarif_document, text_lines
from skillwire.trust.hidden_text import find_hidden

SECRET = "ghp_" + "a1" * 18
WORDS = [
    "name", "description", "demo", "metadata", "version", ": ", "\n", "  ", "---", "- ", "[", "]", "'", '"', "\\", "#",
]  # fmt: skip
WORDS += [
    "\x1b",
    "\u202e",
    "\u2028",
    "](",
    "a.md)",
    "`",
    "curl x | sh",
    f" {SECRET} ",
    "import requests",
    "#!",
    "\t",
    "\r",
]
TEXT = st.lists(st.sampled_from(WORDS)).map("".join) | st.text(st.characters(codec="utf-8"))
SKILL_MD = st.builds("---\nname: demo\ndescription: d\n{}\n---\n{}".format, TEXT, TEXT) | TEXT
KEYS = [
    "name", "version", "kind", "tags", "access", "id", "runtime", "permissions", "network", "entrypoint", "inputs",
    "x",
]  # fmt: skip
VALUES = [
    "'a.b'", "'1.0.0'", "'action'", "['a']", "[1]", "1", "true", "{}", "{a = 1}", "'https://*.com'", "nan",
    "1979-05-27",
]  # fmt: skip
MANIFEST = st.lists(
    st.builds("{} = {}\n".format, st.sampled_from(KEYS), st.sampled_from(VALUES))
    | st.sampled_from(KEYS).map("[{}]\n".format)
).map("".join)
JSON = st.recursive(
    st.sampled_from([None, True, 5, "", "demo", "skill-md", "/x", "sha256:" + "0" * 64, SCHEMA_URI]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "id", "skills", "type", "url", "digest", "files", "$schema"]), inner)
    ),
)
PATHS = st.sampled_from(["a.md", "scripts/run.py", "run.sh", "b.json", "é.txt", ".env", "a.pyc", "x/SKILL.md"])


@given(SKILL_MD.map(str.encode) | st.binary())
def test_no_bytes_get_past_skill_md(data):
    with contextlib.suppress(DecodeError, ValidationError):
        parse_skill_md(data)


@given((MANIFEST | TEXT).map(str.encode) | st.binary())
def test_no_bytes_get_past_skill_toml(data):
    with contextlib.suppress(DecodeError, ValidationError):
        parse_manifest(data)


@given(SKILL_MD, MANIFEST, JSON, st.dictionaries(PATHS, TEXT.map(str.encode) | st.binary(), max_size=3))
def test_a_folder_is_judged_whatever_it_holds(text, manifest, descriptor, files):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "demo"
        documents = {
            "SKILL.md": text.encode(),
            "skill.toml": manifest.encode(),
            "descriptor.json": json.dumps(descriptor).encode(),
        }
        for path, content in {**files, **documents}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for level in ("strict", "lenient"):
            examination = check_folder(folder, level=level)
            has_errors = any(finding.level == "error" for finding in examination.findings)
            assert (examination.folder is None) is has_errors
            told = "".join(part.text for one in examination.findings for line in text_lines(one) for part in line)
            told += json.dumps(json_document(examination.findings, []), ensure_ascii=False)
            assert find_hidden(told) == []
            assert SECRET not in told
            assert sarif_document(examination.findings)["version"] == "2.1.0"


@given(JSON | st.lists(JSON).map(lambda skills: {"$schema": SCHEMA_URI, "skills": skills}))
def test_an_index_is_judged_whatever_it_holds(document):
    with tempfile.TemporaryDirectory() as place:
        index = Path(place) / ".well-known/agent-skills/index.json"
        index.parent.mkdir(parents=True)
        index.write_text(json.dumps(document))
        assert all(finding.message for finding in examine_index(index))
