"""A settings file may come with a repository of strangers, so no more of it is read than a hand would write."""

import pytest

from skillwire.adapters.files.settings_file import load_settings
from skillwire.errors import DecodeError, SourceLocation
from skillwire.limits import SETTINGS_BYTES


@pytest.mark.parametrize("more", [0, 1, SETTINGS_BYTES])
def test_a_settings_file_is_read_up_to_its_bound(tmp_path, more):
    (tmp_path / ".git").mkdir()
    path = tmp_path / "skillwire.toml"
    path.write_bytes(b"#" * (SETTINGS_BYTES + more))
    if not more:
        load_settings(tmp_path, {})
        return
    with pytest.raises(DecodeError, match=f"more than {SETTINGS_BYTES} bytes") as caught:
        load_settings(tmp_path, {})
    assert (caught.value.code, caught.value.place) == ("LIMIT_SIZE", SourceLocation(str(path)))
