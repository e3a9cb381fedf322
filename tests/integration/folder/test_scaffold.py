"""A new skill passes the strict check, which finds nothing but what is to be filled in."""

import json
import subprocess

from skillwire.folder.scaffold import scaffold


def test_the_script_runs(write):
    files = {file.path: bytes(file.content) for file in scaffold("demo", script=True)}
    folder = write(**files)
    (folder / "scripts/main.py").chmod(0o755)
    done = subprocess.run(
        [folder / "scripts/main.py"], input='{"name": "you"}', capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"greeting": "Hello, you!"}
