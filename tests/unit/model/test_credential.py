"""The secrets of a stored credential appear in no text by accident."""

from __future__ import annotations

import json

import pytest
from tests.support.credentials import GRANT, KEY, TOKEN

from skillwire.cli.output import encode_document

both = pytest.mark.parametrize("value", [KEY, TOKEN, GRANT], ids=["key", "token", "renewal"])


@both
@pytest.mark.parametrize("encode", [json.dumps, encode_document])
def test_no_document_takes_it(value, encode):
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode({"login": value})
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode(value)


@both
def test_its_repr_has_no_secret(value):
    assert "hush" not in f"{value!r} {value}"
