"""Runs: blobs and skills come in as files, files go out as blobs; code may come with the call."""

import errno
import json
import os
import time
from dataclasses import replace

import pytest
from tests.support.opened import Blocking
from tests.support.sandbox_driver import make_attempt, make_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire.adapters.executors.python import PythonExecutor, kind_of, read_output_rows
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.sql.blobs import SqlRunBlobs
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import DecodeError, TrustError
from skillwire.executions.callable_skill import code_skill
from skillwire.model.digest import Digest
from skillwire.model.execution import Attachments, RunSettings
from skillwire.model.skill import Action

MISSING = sandbox_missing()
needs_sandbox = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
SETTINGS = RunSettings(blob_bytes=200_000, blobs_per_owner=1_000_000)
#: Defines ``channel``: where the runner writes its report, which code can find.
CHANNEL = """
import os
def is_open(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}").startswith("pipe:")
    except OSError:
        return False
channel = next(number for number in sorted(map(int, os.listdir("/proc/self/fd"))) if number > 2 and is_open(number))
"""


@pytest.fixture
def blobs(tmp_path):
    database = Database(tmp_path / "skillwire.db")
    yield SqlRunBlobs(AsyncDatabase(database), tmp_path / "run-blobs", SETTINGS)
    database.close()


@pytest.fixture
def executor(tmp_path, blobs):
    bounds = lambda seconds: ResourceLimits(seconds, blobs=5, blob_bytes=400_000)  # noqa: E731  # shorter
    store = FileBlobs(tmp_path / "blobs")
    return PythonExecutor(
        store, folder=tmp_path / "unpacked", secrets=Secrets({"KEY": "secret"}), run_blobs=blobs, bounds=bounds
    )


def running(code, inputs=None, *, function="main", given=(), mounts=None):
    skill = code_skill(code.encode(), function)
    names = tuple((name, str(one.artifact.digest)) for name, one in (mounts or {}).items())
    attempt = make_attempt(skill, inputs or {}, 10.0)
    attachments = Attachments(tuple(str(blob.digest) for blob in given), names, code)
    execution = replace(attempt.execution, skill=skill.name, caller="anna", attachments=attachments)
    return attempt._replace(execution=execution, mounts=mounts or {})


def put(blobs, content, owner="anna"):
    async def whole():
        yield content

    (blob,) = Blocking(blobs).store(owner, [(whole(), "text/plain")], time.time())
    return blob


def kept(blobs, outcome):
    assert outcome.failure is None, outcome.failure
    return {blob.name: Blocking(blobs).file_of(Digest(blob.digest)).read_bytes() for blob in outcome.blobs}


@needs_sandbox
async def test_code_is_run_that_nobody_published(executor, tmp_path):
    code = (
        "import os, sys\nprint('one', file=sys.stderr)\ndef go(args):\n"
        "    return [args['n'] + 1, __file__, os.listdir('/skill'), os.environ.get('HTTPS_PROXY')]"
    )
    outcome = await executor.execute(running(code, {"n": 1}, function="go"))
    assert outcome.output == [2, "/skill/main.py", ["main.py"], None]
    assert outcome.log == "one\n"
    assert outcome.blobs == ()
    assert not (tmp_path / "unpacked").exists()  # it lies in the ledger alone


@needs_sandbox
async def test_an_exception_shows_its_line(executor):
    failure = (await executor.execute(running("def main(args):\n    return 1 / 0"))).failure
    assert 'File "/skill/main.py", line 2, in main\n    return 1 / 0' in failure.details["traceback"]
    assert failure.message == "the code raised ZeroDivisionError: division by zero"  # nobody called it a skill


@needs_sandbox
async def test_blobs_and_skills_are_files_that_nobody_changes(executor, blobs, tmp_path):
    blob = put(blobs, b"a,b\n")
    other = put(blobs, b"not given")
    skill = make_skill(FileBlobs(tmp_path / "blobs"), {"SKILL.md": b"# A skill", "lib/x.py": b"X = 7"}, None)
    code = """
import os, sys
def tried(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
def main(args):
    path = f"{os.environ['SKILLS_BLOBS']}/{args['sheet'].removeprefix('blob:')}"
    folder = f"{os.environ['SKILLS_DIR']}/acme.tools"
    sys.path.append(folder)
    from lib.x import X
    refused = [
        tried(open, path, 'a'), tried(os.unlink, path), tried(os.chmod, path, 0o777), tried(open, folder + '/new', 'w'),
        tried(os.mkdir, '/skills/other'), tried(open, '/blobs/other', 'w'), tried(open, '/skill/main.py', 'a'),
    ]
    return [open(path).read(), os.listdir('/blobs'), os.listdir('/skills'), sorted(os.listdir(folder)), X, refused]
"""
    outcome = await executor.execute(running(code, {"sheet": blob.blob_id}, given=[blob], mounts={"acme.tools": skill}))
    text, given, skills, files, number, refused = outcome.output
    assert (text, given, skills, files) == ("a,b\n", [blob.digest.hex], ["acme.tools"], ["SKILL.md", "lib"])
    assert number == 7
    assert set(refused) <= {errno.EROFS, errno.EACCES, errno.EPERM}, refused
    assert Blocking(blobs).file_of(blob.digest).read_bytes() == b"a,b\n"
    assert other.digest.hex not in given


@needs_sandbox
async def test_a_blob_that_is_gone_is_told(executor, blobs):
    blob = put(blobs, b"hello")
    Blocking(blobs).file_of(blob.digest).unlink()
    failure = (await executor.execute(running("main = str", given=[blob]))).failure
    assert failure.reason == "unavailable"


@needs_sandbox
async def test_what_is_written_to_the_folder_for_it_comes_out(executor, blobs):
    code = """
import os
def main(args):
    out = os.environ["SKILLS_OUTPUT"]
    os.mkdir(out + "/charts")
    for name, content in {"a.csv": b"1,2", "charts/b.png": bytes(range(256)), "empty": b"", "ä.txt": b"\\n\\n"}.items():
        with open(f"{out}/{name}", "wb") as file:
            file.write(content)
    return None
"""
    outcome = await executor.execute(running(code))
    assert kept(blobs, outcome) == {"a.csv": b"1,2", "charts/b.png": bytes(range(256)), "empty": b"", "ä.txt": b"\n\n"}
    kinds = {blob.name: blob.kind for blob in outcome.blobs}
    assert kinds == {
        "a.csv": "text/csv", "charts/b.png": "image/png", "empty": "application/octet-stream", "ä.txt": "text/plain"
    }  # fmt: skip
    digests = [Digest(blob.digest) for blob in outcome.blobs]
    assert all(Blocking(blobs).find("anna", digest, time.time()) for digest in digests)
    assert not any(Blocking(blobs).find("bert", digest, time.time()) for digest in digests)


@needs_sandbox
async def test_a_published_skill_hands_out_the_same_way_and_only_in_a_run(executor, blobs, tmp_path):
    code = b"def main(args):\n    open('.output/a.txt', 'w').write('x')"
    skill = make_skill(FileBlobs(tmp_path / "blobs"), {"SKILL.md": b"#", "main.py": code}, Action("python", "main.py"))
    attempt = make_attempt(skill, {}, 10.0)
    assert (await executor.execute(attempt)).blobs == ()  # whose caller could not fetch it
    run = attempt._replace(execution=replace(attempt.execution, attachments=Attachments(), caller="anna"))
    assert kept(blobs, await executor.execute(run)) == {"a.txt": b"x"}


@needs_sandbox
async def test_links_pipes_sockets_and_devices_are_passed_over(executor, blobs):
    code = """
import os, socket
def main(args):
    os.chdir(".output")
    os.symlink("/etc/passwd", "passwd")
    os.symlink("/", "root")
    os.symlink("real", "link")
    os.symlink("/blobs", "folder")
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("socket")
    open("real", "w").write("here")
    os.mkdir("closed", 0)
    try:
        os.mknod("device", 0o600 | 0o020000, os.makedev(1, 5))
    except OSError:
        pass
"""
    assert kept(blobs, await executor.execute(running(code))) == {"real": b"here"}


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "reason", "limit"),
    [
        ("[open(f'.output/{n}', 'w') for n in range(6)]", "limit", "blobs"),
        ("[open(f'.output/{n}', 'wb').truncate(150_000) for n in range(3)]", "limit", "blob_bytes"),
        ("open('.output/a', 'wb').truncate(250_000)", "limit", None),  # more than one blob may have
        ("open('.output/a\\nb', 'w')", "output", None),
        ("open(b'.output/\\xff', 'w')", "output", None),
        ("[open('.output/' + name, 'w') for name in ('a', 'A')]", "output", None),
        ("open('.output/.git', 'w')", "output", None),
        ("open('.output/nul.txt', 'w')", "output", None),
    ],
)
async def test_too_much_and_what_no_file_should_be_called_is_refused_as_a_whole(executor, blobs, code, reason, limit):
    code = f"def main(args):\n    open('.output/good', 'w').write('good')\n    {code}"
    outcome = await executor.execute(running(code))
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.failure.details.get("limit")) == (reason, limit)
    assert outcome.blobs == ()
    assert not blobs._folder.exists() or not list(blobs._folder.rglob("*/*"))


@needs_sandbox
@pytest.mark.parametrize(
    ("report", "rest"),
    [
        ({"output": 1, "files": [["../../etc/cron.d/x", 1]]}, b"x"),
        ({"output": 1, "files": [["/etc/passwd", 1]]}, b"x"),
        ({"output": 1, "files": [["a", 1], ["a", 0]]}, b"x"),
        ({"output": 1, "files": [["a", 2]]}, b"x"),
        ({"output": 1, "files": [["a", -1], ["b", 2]]}, b"x"),
        ({"output": 1, "files": [["a", 1.0]]}, b"x"),
        ({"output": 1, "files": [["a", True]]}, b"x"),
        ({"output": 1, "files": [["a"]]}, b"x"),
        ({"output": 1, "files": "a"}, b"x"),
        ({"output": 1, "files": [[None, 1]]}, b"x"),
        ({"output": 1}, b"x"),
        ({"output": 1, "files": [[str(n), 0] for n in range(6)]}, b""),
    ],
)
async def test_a_forged_report_gains_nothing(executor, blobs, report, rest):
    data = json.dumps(report).encode() + b"\n" + rest
    outcome = await executor.execute(running(f"{CHANNEL}os.write(channel, {data!r})\nos._exit(0)"))
    assert outcome.failure is not None
    assert outcome.failure.reason == "output"
    assert not blobs._folder.exists() or not list(blobs._folder.rglob("*/*"))


@needs_sandbox
async def test_bytes_without_end_behind_a_report_are_stopped(executor, blobs):
    code = f"{CHANNEL}os.write(channel, b'{{\"output\":1}}\\n')\nwhile True:\n    os.write(channel, bytes(65536))"
    outcome = await executor.execute(running(code))
    assert outcome.failure.details["limit"] == "blob_bytes"
    assert not list(blobs._folder.rglob("*/*"))


@needs_sandbox
async def test_what_fails_hands_out_nothing(executor):
    code = "def main(args):\n    open('.output/a', 'w').write('x')\n    raise ValueError('no')"
    outcome = await executor.execute(running(code))
    assert outcome.failure.reason == "exception"
    assert outcome.blobs == ()


@needs_sandbox
async def test_a_disk_that_is_full_of_it_is_told_and_passes(executor, blobs, monkeypatch):
    class Full:
        closed = False

        def write(self, _):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            self.closed = True

    full = Full()
    monkeypatch.setattr(blobs, "spool", lambda: full)
    outcome = await executor.execute(running("def main(args):\n    open('.output/a', 'w').write('x')"))
    assert outcome.failure.reason == "unavailable"
    assert outcome.failure.is_passing
    assert full.closed


@needs_sandbox
async def test_no_room_for_it_is_told(executor, blobs):
    for number in range(15):
        put(blobs, b"%d" % number)
    outcome = await executor.execute(running("def main(args):\n    open('.output/a', 'w').write('x')"))
    assert outcome.failure.reason == "limit"
    assert "BLOB" not in outcome.failure.message
    assert outcome.failure.message.startswith("what the skill handed out cannot be kept: your blobs have more than")


@needs_sandbox
async def test_the_log_of_what_succeeds_holds_no_secrets(executor, tmp_path):
    code = b"import os\ndef main(args):\n    print('key', os.environ['KEY'])"
    action = Action("python", "main.py", permissions=Action("python").permissions._replace(secrets=("KEY",)))
    skill = make_skill(FileBlobs(tmp_path / "blobs"), {"SKILL.md": b"#", "main.py": code}, action)
    assert (await executor.execute(make_attempt(skill, {}, 10.0))).log == "key [secret]\n"


def test_names_and_sizes_have_to_add_up():
    bounds = ResourceLimits(1.0, blobs=2)
    assert read_output_rows([["a/b", 1], ["c", 0]], 1, bounds) == [("a/b", 1), ("c", 0)]
    with pytest.raises(DecodeError):
        read_output_rows([["a", 1]], 2, bounds)
    with pytest.raises(TrustError, match="PATH_TRAVERSAL"):
        read_output_rows([["a/../b", 1]], 1, bounds)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.json", "application/json"),
        ("A.HTML", "text/html"),
        ("a.tar.gz", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
        ("//[a.txt", "text/plain"),
    ],
)
def test_kinds_come_from_endings(name, kind):
    assert kind_of(name) == kind
