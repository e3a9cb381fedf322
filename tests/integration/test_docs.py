"""What can be used is documented: commands, options, settings, environment variables, error codes, limits."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_generated_parts_are_what_the_code_says():
    command = [sys.executable, str(PROJECT / "tools" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
