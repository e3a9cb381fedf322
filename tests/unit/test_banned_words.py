"""The lint check of words: what it finds; ``./dev lint`` runs it."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "banned_words.py"


def load():
    specification = importlib.util.spec_from_file_location("banned_words", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_phrases_names_and_modules_are_found(tmp_path):
    module = tmp_path / "desk.py"
    module.write_text(
        '"""What is told to whoever asks."""\n\n\ndef lend():\n    return "nobody"  # words: a quotation\n'
    )
    found = [(line, word) for _, line, word in load().words_of(module)]
    assert sorted(found) == [(1, "module desk"), (1, "told"), (1, "whoever"), (4, "lend")]


def test_comments_arguments_variables_and_attributes_are_searched(tmp_path):
    module = tmp_path / "names.py"
    module.write_text(
        "def find(told, self):  # nobody asks\n    taken = tells = told\n    self.says = self.noted\n"
        "    asker = 1  # words: nobody\n"
    )
    found = [(line, word) for _, line, word in load().words_of(module)]
    assert sorted(found) == [(1, "nobody"), (1, "told"), (2, "tells"), (3, "says")]


def test_of_a_script_the_comments_are_searched(tmp_path):
    script = tmp_path / "justfile"
    script.write_text("# mend the folder\nmend:\n    # tell of it\n")
    assert [(line, word) for _, line, word in load().words_of_script(script)] == [(1, "mend"), (3, "tell of")]


def test_words_that_only_contain_a_banned_one_are_none(tmp_path):
    module = tmp_path / "names.py"
    module.write_text('def threshold_of_roommates():\n    """Amend the standing order."""\n')
    assert list(load().words_of(module)) == []


def test_asking_and_waiting_for_it_are_english(tmp_path):
    module = tmp_path / "names.py"
    module.write_text('"""Ask for it, or wait for it; there is no row for it."""\n')
    assert [word for _, _, word in load().words_of(module)] == ["for it"]
