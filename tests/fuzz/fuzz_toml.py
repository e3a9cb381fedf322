"""Fuzz the skill.toml reader: ``python tests/fuzz/fuzz_toml.py [CORPUS] [-max_total_time=60]``.

Seeds are the skill.toml cases of the corpus that are small enough to mutate.
"""

import json

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import documents, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire", "tomllib"]):
    from skillwire.errors import DecodeError
    from skillwire.folder.fields import check_entrypoint, check_network, check_secret
    from skillwire.folder.manifest import read_manifest

SEED_BYTES = 4096


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Read ``data`` as a skill.toml; only one error may come out, and what is granted must be clear."""
    try:
        manifest, flaws = read_manifest(data, source="skill.toml")
    except DecodeError as error:
        assert error.place is not None  # noqa: PT017 -- either outcome is right
        return
    assert all(flaw.place is not None and flaw.message for flaw in flaws)
    for pattern in manifest.network:
        check_network(pattern)
    for secret in manifest.secrets:
        check_secret(secret)
    if manifest.runtime:
        check_entrypoint(manifest.runtime.entrypoint)
    json.dumps(list(map(str, manifest.unknown)), ensure_ascii=False)


if __name__ == "__main__":
    fuzz("toml", TestOneInput, documents("skill-toml", ".toml", max_bytes=SEED_BYTES), max_bytes=2 * SEED_BYTES)
