"""Every skill.toml that the reader accepts fits the published schema, whatever its values are."""

import json

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from skillwire.folder.manifest import read_manifest
from skillwire.folder.schemas import SCHEMAS
from skillwire.model.skill import SKILL_TOML

VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMAS[SKILL_TOML])
WORDS = st.sampled_from(
    ["a.b", "a/b", "com.example.b", "1.0.0", "2.0.0-rc.1+b", "action", "instruction", "public", "api", "tool-skill",
     "python", "human", "code/main.py", "..py", "main", "class", "https://a.example.com", "https://*.example.com:8443",
     "EXAMPLE_API_KEY", "GIT_TOKEN", "PATH", "string", "blob", "api_key", "POST", "form", "/data/0", " a ", "a" * 256]
)  # fmt: skip
VALUES = st.one_of(
    WORDS, st.text(st.characters(exclude_categories=["C"]), max_size=4), st.integers(-2, 4000), st.booleans(),
    st.lists(WORDS, max_size=2),
)  # fmt: skip


def _toml(document, path=()):
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in document.items()
        if not isinstance(value, dict)
    ]
    head = [f"[{'.'.join(path)}]"] if path else []
    return "\n".join(
        [*head, *lines, *(_toml(value, (*path, key)) for key, value in document.items() if isinstance(value, dict))]
    )


def _table(schema):
    """Return a strategy of the documents with the fields of ``schema``, each with any value or a likely one."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | VALUES
    if "properties" in schema:
        fields = {name: _table(field) for name, field in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=fields)
    if "anyOf" in schema:
        return st.one_of([_table(one) for one in schema["anyOf"]])
    if isinstance(schema.get("additionalProperties"), dict):
        return st.dictionaries(
            st.sampled_from(["a", "X-Key", "b_c"]), _table(schema["additionalProperties"]), max_size=2
        )
    if schema.get("type") == "object":
        return st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=1)
    return VALUES


@given(st.data())
def test_what_the_reader_accepts_fits_the_schema(data):
    properties = SCHEMAS[SKILL_TOML]["properties"]
    chosen = data.draw(st.lists(st.sampled_from(sorted(properties)), unique=True, max_size=4))
    document = {name: data.draw(_table(properties[name])) for name in chosen}
    manifest, flaws = read_manifest(_toml(document).encode())
    kind = (manifest.executor or {}).get("kind")
    if not flaws and not manifest.unknown and kind != "function":
        VALIDATOR.validate(dict(manifest.document))
