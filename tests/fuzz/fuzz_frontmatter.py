"""Fuzz the SKILL.md reader: ``python tests/fuzz/fuzz_frontmatter.py [CORPUS] [-max_total_time=60]``.

Seeds are the frontmatter cases of the corpus that are small enough to mutate. Input without a frontmatter is
given one, since most mutations would otherwise end at the first line.
"""

import atheris  # type: ignore[import-untyped]  # it publishes no types
from engine import documents, fuzz  # type: ignore[import-not-found]  # a script's neighbour, not a package

with atheris.instrument_imports(include=["skillwire"]):
    from skillwire.errors import DecodeError, ValidationError
    from skillwire.folder.frontmatter import parse_skill_md, read_flat
    from skillwire.trust.guarded_yaml import load_yaml_mapping
    from skillwire.trust.hidden_text import find_hidden, neutralise

SEED_BYTES = 4096


def TestOneInput(data: bytes) -> None:  # noqa: N802 -- the name that fuzzing engines look for
    """Read ``data`` as a SKILL.md; only two errors may come out, and what is read must be fit for use."""
    if not data.startswith((b"---", b"\xef\xbb\xbf")):
        data = b"---\n" + data + b"\n---\n"
    try:
        skill = parse_skill_md(data, source="SKILL.md")
    except (DecodeError, ValidationError) as error:
        assert error.place is not None  # noqa: PT017 -- either outcome is right
        return
    assert skill.name
    assert skill.description
    assert all(isinstance(value, str) for value in skill.metadata.values())
    assert not find_hidden(neutralise(skill.description))
    flat = read_flat(skill.head, source="SKILL.md", first_line=2)
    assert flat is None or flat == load_yaml_mapping(skill.head, source="SKILL.md", first_line=2)
    lines = data.decode().count("\n") + 1
    assert all(1 <= (place.line or 0) <= lines for place in skill.places.values())


if __name__ == "__main__":
    fuzz("frontmatter", TestOneInput, documents("frontmatter", ".md", max_bytes=SEED_BYTES), max_bytes=2 * SEED_BYTES)
