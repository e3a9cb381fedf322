"""Every ``file-path`` case of the hostile documents: what may name a file of a skill."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillwire.errors import TrustError
from skillwire.trust.paths import check_path

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "documents" / "file-path.json").read_bytes())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"][:24].encode("unicode_escape").decode())
def test_path_is_judged_as_the_corpus_says(case):
    if case["expect"] == "accept":
        assert check_path(case["data"]) == case["data"]
        return
    with pytest.raises(TrustError) as caught:
        check_path(case["data"])
    assert caught.value.code.startswith("PATH_")


def test_the_corpus_is_whole():
    assert len(CASES) == 25
