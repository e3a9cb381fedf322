"""Unpacks archives in a process of its own, so that the parent can judge it from outside.

Reads JSON lines ``{archive, format, destination}`` and writes one line for each: the code of the refusal
or None, growth of the peak memory in bytes, and the audit events that unpacking should not raise.
"""

import json
import resource
import sys
from pathlib import Path

from skillwire.errors import SkillwireError
from skillwire.trust.archive import (
    read_archive,
    unpack,
    zip,  # noqa: A004, F401  # imported with the first zip, which is not what is watched here
)

# What writing a plan does; everything else (starting, importing, linking, connecting) is reported, and for
# a refusal these too, because nothing may be written before the whole archive was found good.
ORDINARY = {"open", "os.mkdir", "os.rename", "os.rmdir"}
events: set[str] = set()
sys.addaudithook(lambda event, _: events.add(event))


def memory(field):
    """Return a line of this process's status, such as its peak memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def run(content, archive_format, destination):
    """Unpack; return the code of the refusal, or None."""
    try:
        unpack(read_archive(content, expected_format=archive_format), destination)
    except SkillwireError as error:
        return error.code
    return None


def main(growth_limit):
    """Answer every line of the standard input."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory("VmData") + growth_limit, hard))
    for line in sys.stdin:
        task = json.loads(line)
        content = Path(task["archive"]).read_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = memory("VmRSS")
        events.clear()
        code = run(content, task["format"], Path(task["destination"]))
        seen = sorted(events - ORDINARY if code is None else events)
        growth = memory("VmHWM") - before
        sys.stdout.write(json.dumps({"code": code, "growth": growth, "events": seen}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
