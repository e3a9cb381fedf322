"""The three forms of Skill Sharing's schema say the same, as the tools of each form read them."""

import json
import re
from pathlib import Path

import pytest
from tests.interop.peers import find_peer, run

from skillwire.protocols.skill_sharing.messages import DEFINITIONS

pytestmark = pytest.mark.deep
DRAFT = Path(__file__).parents[2] / "schema" / "draft"
EXAMPLE = Path(__file__).parents[2] / "examples" / "skills" / "weather-forecast" / "descriptor.json"

#: Assignments that a strict compiler has to refuse, one a line; see the table of SSP §9.2.
WRONG = """
export const a: S.CapabilityType = "exec";
export const b: S.ProtocolVersion = {};
export const c: S.ProtocolVersion = { version: 1 };
export const d: S.ProtocolVersion = { version: "1.0.0", changelog_url: null };
export const e: S.ParameterDefinition = { name: "a", type: "string", description: "b", required: "yes" };
export const f: S.InvocationEndpoint = { url: "u", method: "PATCH" };
export const g: S.InvocationEndpoint = { url: "u", method: "GET", retry: { max_attempts: 1 } };
export const h: S.AuthConfig = { type: "oauth2", oauth2: { authorization_url: "a", token_url: "b", scopes: { c: 1 } } };
export const i: S.SkillIndex = { protocol: { version: "1.0.0" }, provider: {}, skills: [] };
export const j: S.InvocationRequest = { caller: { id: "a", type: "b" }, skill_id: "c", inputs: [] };
""".strip().splitlines()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return what the TypeScript and MDX compilers say: exported types, diagnostics, length of the page."""
    folder = tmp_path_factory.mktemp("schema")
    descriptor = json.dumps(json.loads(EXAMPLE.read_text()))
    head = [f'import type * as S from "{DRAFT / "schema"}";', f"export const ok: S.SkillDescriptor = {descriptor};"]
    samples = folder / "samples.ts"
    samples.write_text("\n".join([*head, *WRONG]) + "\n")
    printed = run(
        [*find_peer("sharing_schema"), str(DRAFT / "schema.ts"), str(DRAFT / "schema.mdx"), str(samples)],
        cwd=folder,
        home=folder,
    )
    return json.loads(printed)


def bare(schema):
    """Return a JSON Schema with only what the table of SSP §9.2 maps to TypeScript."""
    if not isinstance(schema, dict):
        return schema
    if "enum" in schema:
        return {"enum": schema["enum"]}
    kept = {key: schema[key] for key in ("type", "$ref") if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: bare(inner) for name, inner in schema["properties"].items()}
        kept["required"] = sorted(schema.get("required", []))
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = bare(schema[key])
    return kept


@pytest.mark.spec("SSP-typescript-equivalent")
def test_typescript_says_what_json_schema_says(compiled):
    definitions = json.loads((DRAFT / "schema.json").read_text())["$defs"]
    assert list(compiled["exported"]) == list(definitions) == list(DEFINITIONS)
    for name, definition in definitions.items():
        assert bare(compiled["exported"][name]) == bare(definition), name


@pytest.mark.spec("SSP-typescript-strict")
def test_strict_compiler_takes_the_schema_and_refuses_every_wrong_sample(compiled):
    assert {one["file"] for one in compiled["diagnostics"]} == {"samples.ts"}
    assert {one["line"] for one in compiled["diagnostics"]} == set(range(3, 3 + len(WRONG)))


@pytest.mark.spec("SSP-mdx")
def test_mdx_compiles_and_names_every_field_as_json_schema_does(compiled):
    assert compiled["mdx"] > 1_000
    page = (DRAFT / "schema.mdx").read_text()
    definitions = json.loads((DRAFT / "schema.json").read_text())["$defs"]
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(definitions)
    for name, definition in definitions.items():
        rows = dict(re.findall(r"^\| `([\w.]+)` \| .*? \| (yes|no) \|", sections[name], re.MULTILINE))
        assert rows == dict(fields(definition)), name
        assert all(f'"{value}"' in sections[name] for value in definition.get("enum", []))


def fields(definition, prefix=""):
    for name, inner in definition.get("properties", {}).items():
        yield prefix + name, "yes" if name in definition["required"] else "no"
        yield from fields(inner, f"{prefix}{name}.")
