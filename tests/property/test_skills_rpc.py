"""The Skills Protocol: any bytes end as an answer, any list is told once and in order, and no path leads outside."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.catalogs import make_catalog, make_skill
from tests.support.rpc import answer, publish, serving

from skillwire.errors import DecodeError, NotFoundError, SkillwireError, TrustError, UsageError, ValidationError
from skillwire.model.skill import Identifiers
from skillwire.protocols.skills_rpc import codec
from skillwire.protocols.skills_rpc.codec import (
    Batch,
    Call,
    Refused,
    decode,
    decode_answer,
    decode_params,
    encode_request,
    encode_result,
)
from skillwire.protocols.skills_rpc.errors import ERRORS
from skillwire.protocols.skills_rpc.messages import METHODS, ListSkills, ReadSkillFile
from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc, decode_list_cursor, encode_list_cursor

URL = "https://example.com/rpc"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
IDS = st.none() | TEXTS | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
PARTS = st.sampled_from(["a", "b", "ab", "a0", "b1"])
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(".".join)
NAMED = st.sets(NAMES, max_size=25)
NAMESPACES = st.none() | st.just("") | NAMES
#: Members of requests, right and wrong, in any company.
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "method": st.sampled_from([method for method in METHODS if hasattr(SkillsRpc, method)]) | VALUES,
        "params": st.fixed_dictionaries({}, optional={"name": VALUES, "path": VALUES, "cursor": VALUES}) | VALUES,
        "id": VALUES,
    },
)
SENT = MEMBERS | st.lists(MEMBERS | VALUES, max_size=4) | VALUES
FILES = {
    "SKILL.md": "---\nname: notes\ndescription: Takes notes.\n---\nDo it.\n",
    "notes/a.md": "one",
    "b.txt": "two",
}
PUBLISHED = publish(notes=FILES, other={"secret.txt": "three"})
CALL = serving(PUBLISHED.rpc())


def index_of(names):
    skills = [
        make_skill(f"s{number}")._replace(identifiers=Identifiers("a/b", "c", name))
        for number, name in enumerate(sorted(names))
    ]
    return SkillIndex(make_catalog(*skills).skills)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(data):
    request = decode(data)
    items = request.items if isinstance(request, Batch) else [request]
    assert isinstance(request, Refused) or all(isinstance(item, Call | Refused) for item in items)


@pytest.mark.spec("RPC-response", "RPC-id", "RPC-notification")
@given(SENT)
def test_whatever_is_sent_is_answered_once_for_each_request_and_never_for_a_notification(document):
    told = answer(json.dumps(document).encode(), CALL)
    members = document if isinstance(document, list) and document else [document]
    answers = told if isinstance(told, list) else [] if told is None else [told]
    assert isinstance(told, list) == (isinstance(document, list) and bool(document) and told is not None)
    assert len(answers) == sum(not is_notification(member) for member in members)
    for one in answers:
        assert one.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        assert one["jsonrpc"] == "2.0"
        assert "error" not in one or one["error"]["code"] in ERRORS
    ids = [member.get("id") for member in members if isinstance(member, dict) and not is_notification(member)]
    assert all(one["id"] is None or one["id"] in ids for one in answers)


def is_notification(member):
    return (
        isinstance(member, dict)
        and "id" not in member
        and member.get("jsonrpc") == "2.0"
        and isinstance(member.get("method"), str)
        and isinstance(member.get("params", {}), dict | list)
    )


@pytest.mark.spec("RPC-id", "RPC-client")
@given(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=4), IDS, VALUES)
def test_a_call_and_its_result_arrive_as_they_were_meant(method, params, request_id, result):
    assert decode(encode_request(method, params, request_id)) == Call(method, params, request_id)
    written = encode_result(request_id, result)
    assert decode_answer(written, request_id, source=URL, max_bytes=10_000) == result
    assert encode_result(request_id, json.dumps(result).encode()).startswith(b'{"jsonrpc":"2.0"')


@given(st.sampled_from(sorted(METHODS)), st.dictionaries(st.sampled_from(["name", "limit", "args"]) | TEXTS, VALUES))
def test_any_parameters_fit_or_are_refused_with_a_place_among_them(method, params):
    try:
        decode_params(params, METHODS[method])
    except ValidationError as error:
        told = (error.code, str(error.place)[:7])
        assert told == ("RPC_PARAMS", "/params")  # it may be raised, or not


@pytest.mark.spec("SKP-list-pages", "SKP-list-order", "SKP-list-namespace", "SKP-access")
@given(NAMED, st.data(), NAMESPACES, st.integers(1, 8), st.sampled_from(["names", "summary"]))
def test_the_pages_of_any_list_are_the_skills_of_the_namespace_in_order(names, data, namespace, limit, detail):
    whole = index_of(names)
    chosen = data.draw(st.sets(st.sampled_from(sorted(whole.skills)))) if whole.skills else set()
    index = SkillIndex({name: whole.skills[name] for name in chosen}, whole)
    expected = sorted(
        skill.identifiers.skills_rpc
        for name, skill in whole.skills.items()
        if name in chosen and (not namespace or skill.identifiers.skills_rpc.startswith(f"{namespace}."))
    )
    found, cursor = [], None
    for _ in range(len(expected) // limit + 2):
        asked = ListSkills(namespace=namespace, limit=limit, detail=detail, cursor=cursor)
        page = codec.decode_page(json.loads(index.page(asked)), URL)
        found += [skill.name for skill in page.skills]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.skills) == limit
    assert cursor is None
    assert found == expected


@pytest.mark.spec("SKP-cursor")
@given(NAMED, NAMED, NAMES, NAMESPACES)
def test_behind_a_cursor_come_exactly_the_names_behind_its_name(names, later, last, namespace):
    index = index_of(names | later)
    asked = ListSkills(namespace=namespace, cursor=encode_list_cursor(namespace, last), limit=500)
    page = codec.decode_page(json.loads(index.page(asked)), URL)
    expected = [n for n in sorted(names | later) if n > last and (not namespace or n.startswith(f"{namespace}."))]
    assert [skill.name for skill in page.skills] == expected


@pytest.mark.spec("SKP-cursor")
@given(st.text(max_size=40) | TEXTS.map(lambda text: encode_list_cursor(None, text)), NAMESPACES)
def test_any_text_is_a_cursor_of_the_namespace_or_refused(text, namespace):
    try:
        last = decode_list_cursor(text, namespace)
    except UsageError as error:
        assert error.code == "CURSOR"  # noqa: PT017  # it may be raised, or not
        return
    assert encode_list_cursor(namespace, last) == text


@pytest.mark.spec("SKP-read-restricted")
@given(
    st.text(max_size=30)
    | st.lists(
        st.sampled_from(["..", ".", "", "a.md", "notes", "b.txt", "other", "secret.txt", "%2e%2e", "SKILL.md"]),
        max_size=5,
    ).map("/".join)
)
@example("./notes//./a.md")
@example("/SKILL.md")
@example("./../SKILL.md")
def test_no_path_gives_anything_but_the_file_that_it_names(path):
    rpc = PUBLISHED.rpc()
    *folders, file = path.split("/")
    named = "/".join([*(folder for folder in folders if folder not in {"", "."}), file])
    is_file = named in FILES and not path.startswith("/")
    try:
        told = json.loads(rpc.read_skill_file(ReadSkillFile(name="acme.notes", path=path)))
    except (TrustError, NotFoundError) as error:
        assert error.code.startswith("PATH_") or error.code == "FILE_NOT_FOUND"  # noqa: PT017  # it may not be raised
        assert not is_file
        return
    assert is_file
    assert told["content"] == FILES[named]


@pytest.mark.spec("RPC-client")
@given(st.binary(max_size=100) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_answer_is_read_or_ends_as_an_error_of_ours(data):
    with pytest.raises((DecodeError, ValidationError)):
        decode_answer(data, 7, source=URL, max_bytes=1000)


@given(st.dictionaries(st.sampled_from(["code", "message", "data"]), VALUES), st.sampled_from([*ERRORS, 1, -32000]))
def test_any_told_error_is_raised_as_one_of_ours(told, code):
    document = {"jsonrpc": "2.0", "id": 7, "error": {**told, "code": told.get("code", code)}}
    with pytest.raises(SkillwireError) as caught:
        decode_answer(json.dumps(document).encode(), 7, source=URL, max_bytes=10_000)
    assert caught.value.diagnostics().message


DECODERS = [
    codec.decode_page,
    codec.decode_described,
    codec.decode_file,
    codec.decode_created,
    codec.decode_blob,
    codec.decode_run,
]
KEYS = ["skills", "next_cursor", "skill", "manifest", "content", "blob_id", "size_bytes", "status", "run_id", "output"]


@given(st.sampled_from(DECODERS), st.dictionaries(st.sampled_from(KEYS), VALUES | st.just("completed")) | VALUES)
def test_any_result_is_read_or_refused(read, result):
    try:
        read(result, URL)
    except ValidationError as error:
        assert error.code == "RPC_ANSWER"  # noqa: PT017  # it may be raised, or not
