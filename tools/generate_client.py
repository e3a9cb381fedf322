"""Write the synchronous client from the asynchronous one, so that no verb is written twice.

Both are ordinary files that an editor and mypy read; they differ only by the words below. What really differs
stands in ``skillwire/client/steps.py``.

    python tools/generate_client.py            write it
    python tools/generate_client.py --check    fail when it is not what it should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "skillwire" / "client"
SOURCE = CLIENT / "asynchronous.py"
TARGET = CLIENT / "synchronous.py"
DOCSTRING = '"""The asynchronous client: conversations on the event loop, work on files in threads."""\n'
NEW_DOCSTRING = '''"""The synchronous client, which the command line uses too: the standard library only.

Written by ``tools/generate_client.py`` from ``asynchronous.py``: change that file, then run the tool.
"""
'''
WORDS = {
    r"\basync (def|with|for) ": r"\1 ",
    r"\bawait ": "",
    r"__a(enter|exit)__": r"__\1__",
    r"\bAsync(Client|RemoteSkill)\b": r"\1",
    r"\bAwaited(Steps|Driver)\b": r"Blocking\1",
    r"\bAn asynchronous context manager\b": "A context manager",
}


def synchronous() -> str:
    """Return the synchronous client, formatted."""
    text = SOURCE.read_text()
    assert text.startswith(DOCSTRING), "the docstring of the module is another"  # noqa: S101  # a tool may fail so
    text = NEW_DOCSTRING + text.removeprefix(DOCSTRING)
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text)
    command = [str(Path(sys.executable).with_name("ruff")), "format", "--quiet", f"--stdin-filename={TARGET}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write or check."""
    text = synchronous()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() == text:
            return 0
        print("src/skillwire/client/synchronous.py is not what tools/generate_client.py writes; run it")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
