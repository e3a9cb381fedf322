"""The parts of the sandbox, each by itself: patterns, what is shown, what is used, groups, what is in the way."""

import stat
import sys

import pytest

from skillwire.adapters.sandbox import Sandbox
from skillwire.adapters.sandbox import bubblewrap as program_module
from skillwire.errors import TrustError

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@linux
def test_what_fails_to_start_says_why(tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(TrustError, match="No permissions to create new namespace") as caught:
        Sandbox(program_module.Program(str(broken), ())).check()
    assert caught.value.code == "SANDBOX_UNAVAILABLE"


@linux
def test_a_program_that_is_gone_is_told(tmp_path):
    with pytest.raises(TrustError, match="cannot be started"):
        Sandbox(program_module.Program(str(tmp_path / "none"), ())).check()
