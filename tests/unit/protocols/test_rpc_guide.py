"""The guide: a skill that passes our own rules, and says what is so."""

import re
from typing import Any

import msgspec
import pytest

from skillwire.folder.load import examine
from skillwire.model.digest import Digest
from skillwire.protocols.skills_rpc import guide as module
from skillwire.protocols.skills_rpc.errors import ERRORS
from skillwire.protocols.skills_rpc.guide import GUIDE, load_guide
from skillwire.protocols.skills_rpc.index import dotted_name
from skillwire.protocols.skills_rpc.json_rpc import Call, Single, decode, decode_params, params_type
from skillwire.protocols.skills_rpc.messages import METHODS, ListSkills, Run

TEXT = load_guide().text


@pytest.mark.spec("SKP-guide")
def test_the_guide_passes_the_strict_rules_without_a_finding(tmp_path):
    guide = load_guide()
    folder = tmp_path / guide.skill.name
    folder.mkdir()
    for file in guide.skill.files:
        (folder / file.path).write_bytes(guide.read(file.digest))
    examination = examine(folder, level="strict")
    assert examination.folder is not None
    assert examination.findings == ()
    assert dotted_name(guide.skill) == GUIDE
    assert (guide.skill.version, guide.skill.kind) == ("0.1.0", "instruction")


def test_a_file_that_the_guide_does_not_have_is_not_read():
    assert load_guide().read(Digest.of(b"elsewhere")) is None
    assert module.load_guide() is load_guide()


def test_every_method_and_parameter_and_code_is_explained():
    for method, kind in METHODS.items():
        if method != "load_skills_protocol_guide":  # whoever reads this has called it
            assert f"`{method}`" in TEXT
        for field in msgspec.structs.fields(kind):
            assert re.search(rf"\b{field.encode_name}\b", TEXT), field.encode_name
    for number in ERRORS:
        assert str(number) in TEXT
    for name in Run._fields:
        assert f"| `{name}` |" in TEXT


def test_the_requests_that_it_shows_are_good_ones():
    shown = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert len(shown) >= 2
    for text in shown:
        single = decode(text.encode())
        assert isinstance(single, Single)
        assert isinstance(single.item, Call)
        decode_params(single.item.params, params_type(single.item.method))


def test_the_code_that_it_shows_does_what_it_says(tmp_path, monkeypatch):
    (shown,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "ab12").write_text("one\nthe longest\ntwo\n")
    monkeypatch.setenv("SKILLS_BLOBS", str(tmp_path))
    found: dict[str, Any] = {}
    exec(shown, found)  # noqa: S102  # a sample of ours
    assert found["main"]({"file": "blob:ab12"}) == "the longest\n"


def test_the_bounds_that_it_says_are_ours():
    assert "1 to 500 skills; 50 unless" in TEXT
    assert ListSkills().limit == 50


def test_it_fits_into_the_context_of_a_model():
    assert len(TEXT) < 12_000
