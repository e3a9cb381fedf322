"""A new skill passes the strict check, which finds nothing but what is to be filled in."""

import pytest

from skillwire.errors import ValidationError
from skillwire.folder.load import load_folder
from skillwire.folder.scaffold import PLACEHOLDERS, scaffold


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("manifest", [False, True])
def test_a_new_skill_has_placeholders_only(write, script, manifest):
    files = scaffold("pdf-forms", script=script, manifest=manifest)
    folder = write("pdf-forms", **{file.path: bytes(file.content) for file in files})
    for file in files:
        (folder / file.path).chmod(0o755 if file.executable else 0o644)
    loaded = load_folder(folder)
    assert {finding.code for finding in loaded.findings} == {"PLACEHOLDER"}
    assert loaded.version == "0.1.0"
    assert loaded.manifest.kind == (("action" if script else "instruction") if manifest else None)


@pytest.mark.parametrize("words", PLACEHOLDERS)
@pytest.mark.parametrize("level", ["strict", "lenient"])
def test_the_words_of_a_template_are_found_where_they_stand(found, level, words):
    text = f"---\nname: demo\ndescription: d\nmetadata:\n  version: '1.0.0'\n---\n# B\n\n{words}\n"
    assert found(level, **{"SKILL.md": text}) == ["warning PLACEHOLDER SKILL.md:9:1"]
    assert found(level, **{"SKILL.md": text.replace(words, "Do it."), "references/notes.md": f"{words}\n"}) == []


def test_the_template_holds_each_of_our_placeholders():
    text = bytes(scaffold("demo")[0].content).decode()
    assert sum(words in text for words in PLACEHOLDERS) == 3


@pytest.mark.parametrize("name", ["", "A", "a--b", "../a", "con"])
def test_names_that_no_skill_may_have(name):
    with pytest.raises(ValidationError, match="NAME_FORM"):
        scaffold(name)
