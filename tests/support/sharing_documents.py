"""Documents of Skill Sharing for property tests: made from the shapes of its messages, right and nearly right."""

from typing import Any

from hypothesis import strategies as st

from skillwire.protocols.skill_sharing.messages import CONDITIONS
from skillwire.protocols.skill_sharing.validation import json_schema

DEFINED = json_schema()["$defs"]
VERSIONS = st.sampled_from(["1.0.0", "0.1.0", "2.3.1", "1.0.0-alpha.1", "1.2.3+build.5", "10.20.30-rc.1+x-y"])
#: 64 bits, which every reader of JSON takes for a whole number as it stands.
WHOLE = st.integers(-(2**53), 2**53)
PLAIN = st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
BY_TYPE = {
    "string": st.text(max_size=12),
    "number": WHOLE | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}
WRONG = st.sampled_from([None, True, 3, -1.5, "", "2", "1.0", "v1.0.0", "1.0.0\n", "01.0.0", [], [1], {}, {"a": 1}])


def documents(definition: str) -> st.SearchStrategy[Any]:
    return _made(DEFINED[definition], definition)


def _made(schema: dict[str, Any], name: str | None = None) -> st.SearchStrategy[Any]:
    match schema:
        case {"$ref": reference}:
            other = reference.rpartition("/")[2]
            return st.deferred(lambda: _made(DEFINED[other], other))
        case {"enum": values}:
            return st.sampled_from(values)
        case {"items": item}:
            return st.lists(_made(item), max_size=3)
        case {"additionalProperties": value}:
            return st.dictionaries(st.text(max_size=6), _made(value), max_size=3)
        case {"properties": fields, "required": required}:
            needed = {field: _made(fields[field]) for field in required}
            optional = {field: _made(inner) for field, inner in fields.items() if field not in required}
            made = st.fixed_dictionaries(needed, optional=optional)
            return made.filter(lambda document: _fits_conditions(document, name))
    return VERSIONS if "pattern" in schema else BY_TYPE.get(schema.get("type", ""), ANYTHING)


def _fits_conditions(document: dict[str, Any], name: str | None) -> bool:
    return all(
        document.get(rule.field) != rule.value or rule.demanded in document for rule in CONDITIONS.get(name or "", ())
    )


@st.composite
def spoiled(draw: st.DrawFn, definition: str) -> Any:
    document = draw(documents(definition))
    places = list(_places(document))
    if not places:
        return draw(WRONG)
    holder, key = draw(st.sampled_from(places))
    deed = draw(st.sampled_from(["remove", "replace", "add"]))
    if deed == "remove":
        del holder[key]
    elif deed == "replace" or isinstance(holder, list):
        holder[key] = draw(WRONG)
    else:
        holder[draw(st.sampled_from(["x", "changelog_url", "schema", "header", "tags", "retry"]))] = draw(WRONG)
    return document


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
