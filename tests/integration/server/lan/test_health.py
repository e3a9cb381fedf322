"""How skills are: what the server knows, and what their publisher's function says, the worse of the two."""

import pytest
from tests.support.sandbox_driver import make_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire import limits
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.model.skill import Action, HealthCheck, Permissions
from skillwire.server.lan.health import FAILED, GOOD, SILENT, UNREADABLE, HealthChecks


async def _granted(_):
    return True


pytestmark = pytest.mark.spec("SDP-heartbeat-callback")
MISSING = sandbox_missing()


def never():
    pytest.fail("made in vain")


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize(
    ("code", "condition"),
    [
        ("def health(args):\n    return not args", GOOD),
        (
            "import os\ndef health(args):\n    return 'DEGRADED' if os.environ['A_KEY'] == 's3' else 'HEALTHY'",
            "DEGRADED",
        ),
        ("def health(args):\n    raise OSError('/home/alice')", FAILED),
        ("def health(args):\n    return 'x' * 5000", FAILED),
        ("def health(args):\n    import os\n    os._exit(0)", FAILED),
        ("async def health(args):\n    return True", FAILED),
        ("import time\ndef health(args):\n    time.sleep(60)", SILENT),
        ("def health(args):\n    return [[[[True]]]]", UNREADABLE),
    ],
)
async def test_it_runs_in_a_sandbox_with_what_was_granted(tmp_path, code, condition):
    blobs = FileBlobs(tmp_path / "blobs")
    seconds = 2 if condition == SILENT else 60  # a busy machine needs seconds to start a sandbox
    check = HealthCheck("", "look.py", "health", 30, seconds)
    action = Action("python", "main.py", permissions=Permissions((), ("A_KEY",)), health=check)
    files = {"SKILL.md": b"#", "main.py": b"def main(args): ...\n", "look.py": code.encode()}
    skill = make_skill(blobs, files, action)
    executor = PythonExecutor(
        blobs,
        folder=tmp_path / "unpacked",
        secrets=Secrets({"A_KEY": "s3"}),
        bounds=lambda seconds: ResourceLimits(seconds, output_bytes=limits.LAN_HEALTH_OUTPUT_BYTES),
    )
    found = await HealthChecks(lambda: executor, never, _granted).ask(skill, check)
    assert (found.condition.status if isinstance(condition, str) else found.condition) == condition
    assert "s3" not in found.why


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
