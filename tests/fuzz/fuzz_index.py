"""Fuzz the index reader: ``python tests/fuzz/fuzz_index.py [CORPUS] [-max_total_time=60]``.

Seeds are the index documents of the corpus that are small enough to mutate.
"""

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import documents, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import DecodeError, TrustError, ValidationError
    from skillwire.model.digest import Digest
    from skillwire.model.skill import is_skill_name
    from skillwire.model.url import parse_url
    from skillwire.protocols.agent_skills.decoder import decode_index
    from skillwire.trust.hidden_text import find_hidden
    from skillwire.trust.paths import check_path

INDEX_URL = "https://example.com/.well-known/agent-skills/index.json"
SEED_BYTES = 4096


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Decode ``data``; only the three errors may come out, and every entry must be fit for use."""
    try:
        index = decode_index(data, INDEX_URL)
    except (DecodeError, ValidationError, TrustError):
        return
    for name, entry in index.entries.items():
        assert name == entry.name
        assert is_skill_name(name)
        assert not find_hidden(entry.description)
        parse_url(entry.url)
        assert entry.digest is None or Digest.parse(entry.digest)
        for file in entry.files:
            assert check_path(file.path) == file.path
            parse_url(file.url)
    for finding in index.findings:
        assert finding.message
        assert str(finding.place).startswith(INDEX_URL)


if __name__ == "__main__":
    fuzz(
        "index", TestOneInput, documents("agent-skills-index", ".json", max_bytes=SEED_BYTES), max_bytes=2 * SEED_BYTES
    )
