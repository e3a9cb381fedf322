"""The page on the SDK shows what works: its Python runs, from the first block to the last, against a real server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.live_server import serving

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "how-to" / "use-the-sdk.md"
EXAMPLES = PROJECT / "examples" / "skills"
PATIENCE = 45.0


def test_the_blocks_run_and_show_every_verb(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    skills = tmp_path / "skills"
    for name in ("csv-profile", "git-commit-messages", "log-triage"):
        shutil.copytree(EXAMPLES / name, skills / name)
    project = tmp_path / "project"
    project.mkdir()
    with serving(skills, tmp_path / "server") as origin:
        program = re.sub(r"(?<![\w/.])example\.com", origin, "\n".join(blocks))
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKILLWIRE_HOME": str(tmp_path / "state")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for shown in (
        "csv-profile - Profiles a CSV",
        "new log-triage",
        "SKILL_NOT_FOUND - Did you mean csv-profile",
        "csv-profile current",
        f"http://{origin} 20",
        f"{origin} 0\n",
    ):
        assert shown in done.stdout, shown
    assert (project / ".claude/skills/csv-profile").is_symlink()
    assert not (project / ".agents/skills/log-triage").exists(), "the page removes it in the end"
