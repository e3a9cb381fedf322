"""Write the synchronous client from the asynchronous one, so that no verb is written twice.

Both are ordinary files that an editor and mypy read; they differ only by the words below. What really differs
stands in ``skillwire/client/runner.py``.

    python tools/generate_client.py            write it
    python tools/generate_client.py --check    fail when it is not what it should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "skillwire" / "client"
#: Module that is written by hand → its first line, and what that is in the module that is written from it.
DOCSTRINGS = {
    "asynchronous": (
        "The asynchronous client: conversations on the event loop, work on files in threads.",
        "The synchronous client, which the command line uses too: the standard library only.",
    ),
    "rpc_asynchronous": (
        "The methods of an endpoint of the Skills Protocol, awaited.",
        "The methods of an endpoint of the Skills Protocol, one after the other.",
    ),
    "lan_asynchronous": (
        "The local network: its skills and scenes, awaited.",
        "The local network: its skills and scenes, for programs without an event loop.",
    ),
}
WORDS = {
    r"\basync (def|with|for) ": r"\1 ",
    r"\bawait ": "",
    r"__a(enter|exit)__": r"__\1__",
    r"\bAsync(Client|RemoteSkill|RpcSkills|Lan|Iterator)\b": r"\1",
    r"\b(rpc|lan)_asynchronous\b": r"\1_synchronous",
    r"\bskillwire\.client\.asynchronous\b": "skillwire.client.synchronous",
    r"\bAwaited(Steps|Driver|LanThread)\b": r"Blocking\1",
    r"\bAn asynchronous context manager\b": "A context manager",
}


def written_from(module: str) -> tuple[Path, str]:
    """Return the synchronous module that ``module`` is the source of, and its text, formatted."""
    source, target = CLIENT / f"{module}.py", CLIENT / f"{module.replace('asynchronous', 'synchronous')}.py"
    text, (before, after) = source.read_text(), DOCSTRINGS[module]
    docstring = f'"""{before}"""\n'
    assert text.startswith(docstring), "the docstring of the module is another"  # noqa: S101  # a tool may fail so
    text = text.removeprefix(docstring)
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text)
    told = f"Written by ``tools/generate_client.py`` from ``{source.name}``: change that file, then run the tool."
    text = f'"""{after}\n\n{told}\n"""\n{text}'
    for arguments in (["check", "--select=I", "--fix-only"], ["format"]):
        command = [
            str(Path(sys.executable).with_name("ruff")),
            *arguments,
            "--quiet",
            f"--stdin-filename={target}",
            "-",
        ]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return target, text


def main() -> int:
    """Write or check."""
    stale = 0
    for target, text in map(written_from, DOCSTRINGS):
        if "--check" not in sys.argv[1:]:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            print(f"src/skillwire/client/{target.name} is not what tools/generate_client.py writes; run it")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
