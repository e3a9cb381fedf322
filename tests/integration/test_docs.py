"""What can be used is documented: commands, options, settings, environment variables, error codes, limits."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_generated_parts_are_what_the_code_says():
    command = [sys.executable, str(PROJECT / "tools" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page, package = (PROJECT / "build/docs/reference/api.md").read_text(), PROJECT / "src" / "skillwire"
    public = {one.stem for one in package.glob("[a-z]*.py") if "\n__all__ = " in one.read_text()}
    assert {one for one in public if f"\n## skillwire.{one}\n" not in page} == set()
    assert "\n### dht.Client\n" in page, "another Client than that of skillwire"
