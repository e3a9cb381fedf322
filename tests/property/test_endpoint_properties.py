"""Skills of an endpoint: whatever it answers, the client gives values that hide nothing, or an error of ours."""

import io
import json
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from skillwire.cli.output import Output
from skillwire.cli.show import inputs_of, print_manifest
from skillwire.client.endpoint_calls import EndpointCalls
from skillwire.errors import SkillwireError, UsageError
from skillwire.model.ref import SkillRef
from skillwire.protocols.skills_rpc.messages import DescribedSkill
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.sources import Lookup
from skillwire.resolver.sources.skills_rpc import SkillsRpc, read_file
from skillwire.trust.hidden_text import find_hidden
from skillwire.wire.exchange import HttpResponse, follow

ENDPOINT = "https://example.com/rpc"
NAME = "ns.sync"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
INPUTS = st.dictionaries(
    TEXTS,
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "blob", "integer", "array", "any"]) | VALUES,
            "description": TEXTS | VALUES,
            "required": st.booleans() | VALUES,
            "default": VALUES,
            "schema": st.dictionaries(st.sampled_from(["type", "pattern", "enum", "$ref", "minimum"]), VALUES) | VALUES,
        },
    )
    | VALUES,
    max_size=3,
)
MANIFESTS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just(NAME) | VALUES,
        "version": TEXTS | VALUES,
        "description": TEXTS | VALUES,
        "kind": st.sampled_from(["action", "instruction"]) | VALUES,
        "namespace": TEXTS | VALUES,
        "tags": st.lists(TEXTS | VALUES, max_size=3) | VALUES,
        "runtime": st.dictionaries(st.sampled_from(["language", "entrypoint"]), VALUES) | VALUES,
        "permissions": st.dictionaries(st.sampled_from(["network", "secrets"]), st.lists(TEXTS) | VALUES) | VALUES,
        "inputs": INPUTS | VALUES,
    },
)
LISTED = st.fixed_dictionaries(
    {"name": st.sampled_from([NAME, "ns.b"]) | TEXTS, "version": TEXTS},
    optional={"description": TEXTS, "namespace": TEXTS, "kind": TEXTS},
)
RUNS = st.fixed_dictionaries(
    {"status": st.sampled_from(["completed", "failed"]), "run_id": TEXTS},
    optional={
        "summary": TEXTS,
        "output": VALUES,
        "logs_preview": TEXTS,
        "error": st.fixed_dictionaries({"type": TEXTS | st.just("timeout"), "message": TEXTS}) | st.none(),
        "output_blobs": st.lists(
            st.fixed_dictionaries({"blob_id": TEXTS}, optional={"name": TEXTS}) | TEXTS, max_size=3
        ),
    },
)
CONTENTS = st.fixed_dictionaries(
    {"content": TEXTS | st.sampled_from(["QQ==", "QR==", "QQ"])},
    optional={"encoding": st.sampled_from(["text", "base64"]) | VALUES},
)


def session():
    return ResolveContext(
        cache=mock.Mock(),
        blobs=mock.Mock(),
        origins=mock.Mock(),
        credentials={},
        clock=lambda: 0.0,
        report=assert_nothing_hidden,
    )


def assert_nothing_hidden(finding):
    assert not find_hidden(finding.message)


def drive(flow, *results):
    """Run a flow whose requests are answered by these results, one after the other; None for an error of ours."""
    bodies = [json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() for result in (*results, *[None] * 99)]
    try:
        return follow(
            flow, [HttpResponse(ENDPOINT, 200, {"content-type": "application/json"}, body) for body in bodies]
        )
    except SkillwireError as error:
        hides = find_hidden(str(error)) and not isinstance(error, UsageError)  # that says what was typed here
    assert not hides
    return None


def skill_of(manifest):
    flow = SkillsRpc(session()).resolve(Lookup(ENDPOINT, NAME))
    found = drive(flow, {"skill": {"manifest": manifest}})
    return found[0] if found else None


def assert_harmless(skill: SkillRef) -> None:

    for text in (
        skill.name,
        skill.description,
        skill.version or "",
        skill.rpc.namespace if skill.rpc else "",
        skill.origin,
    ):
        assert not find_hidden(text)
    assert skill.has_no_artifact
    assert skill.rpc is not None
    assert skill.rpc.kind in {"action", "instruction", ""}


@given(
    st.fixed_dictionaries({"skills": st.lists(LISTED | VALUES, max_size=4)}, optional={"next_cursor": TEXTS}) | VALUES
)
def test_a_list_gives_skills_that_hide_nothing(result):
    found = drive(SkillsRpc(session()).resolve(Lookup(ENDPOINT)), result, result, result)
    for skill in found or ():
        assert_harmless(skill)
    assert len({skill.name for skill in found or ()}) == len(found or ())


@given(MANIFESTS)
def test_a_description_gives_a_skill_that_hides_nothing_and_can_be_printed(manifest):
    skill = skill_of(manifest)
    if skill is None:
        return
    assert_harmless(skill)
    assert skill.name == NAME
    with mock.patch("sys.stdout", new=io.StringIO()) as screen:
        print_manifest(Output(as_json=False, quiet=False), manifest, ENDPOINT)
    assert not find_hidden(screen.getvalue())
    inputs_of(manifest, ENDPOINT)


@given(MANIFESTS, st.dictionaries(TEXTS, VALUES | st.binary(max_size=8), max_size=3))
def test_a_call_is_prepared_or_refused(manifest, inputs):
    skill = skill_of(manifest)
    if skill is not None:
        prepared = drive(EndpointCalls(session()).prepare(skill, inputs, {}))
        assert prepared is None or json.loads(prepared.body)["params"]["name"] == NAME


@given(RUNS | VALUES)
def test_a_run_is_an_execution_that_has_ended(run):
    skill = skill_of({"name": NAME})
    execution = drive(EndpointCalls(session()).call(skill, {}, {}), run)
    if execution is not None:
        assert execution.is_final
        for text in (
            execution.execution_id,
            execution.summary,
            execution.log,
            *(blob.name for blob in execution.blobs),
        ):
            assert not find_hidden(text)
        assert execution.error is None or not find_hidden(execution.error.message)


@given(CONTENTS | VALUES, st.sampled_from(["SKILL.md", "blob:x"]))
def test_a_file_is_bytes(told, path):
    skill: Any = skill_of({"name": NAME})
    content = drive(read_file(skill, path, session()), told, told)
    assert content is None or isinstance(content, bytes)


def test_the_driver_of_these_tests_sees_what_is_right():
    skill = skill_of({"name": NAME, "kind": "action"})
    assert isinstance(skill.described, DescribedSkill)
    assert drive(read_file(skill, "SKILL.md", session()), {"content": "text"}) == b"text"
    assert (
        drive(EndpointCalls(session()).call(skill, {}, {}), {"status": "completed", "run_id": "r", "output": 1}).output
        == 1
    )
