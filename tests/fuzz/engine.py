"""What the fuzz targets share: seeds, a folder for what is found, and the start of the engine."""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # it publishes no types

TESTS = Path(__file__).parent.parent
KEPT = TESTS.parent / ".fuzz"


def documents(name: str, suffix: str = "", *, max_bytes: int) -> dict[str, bytes]:
    """Return the documents of a file of the corpus that are small enough to mutate, by number."""
    cases = json.loads((TESTS / "corpus" / "documents" / f"{name}.json").read_text())
    contents = [base64.b64decode(case["b64"]) if "b64" in case else case["data"].encode() for case in cases]
    return {f"{number}{suffix}": content for number, content in enumerate(contents) if len(content) <= max_bytes}


def fuzz(name: str, test_one_input: Callable[[bytes], None], seeds: Mapping[str, bytes], *, max_bytes: int) -> None:
    """Fuzz until the arguments of the command line say to stop; never returns.

    Args:
        name: of the target: its folders are ``.fuzz/NAME`` and ``.fuzz/NAME-seeds``.
        test_one_input: fails on an input that must not be.
        seeds: inputs to begin with, by file name.
        max_bytes: of an input.
    """
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    # The engine ends the process itself, so that a temporary folder would stay behind.
    seed_folder, found = KEPT / f"{name}-seeds", KEPT / name
    for folder in (seed_folder, found):
        folder.mkdir(parents=True, exist_ok=True)
    for file, content in seeds.items():
        (seed_folder / file).write_bytes(content)
    arguments = [sys.argv[0], *(folders or [str(found)]), str(seed_folder), f"-max_len={max_bytes}", *options]
    atheris.Setup(arguments, test_one_input)
    atheris.Fuzz()
