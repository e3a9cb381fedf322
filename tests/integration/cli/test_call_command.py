"""``call``, ``status``, ``result`` and ``cancel`` against a provider on loopback: what they print, and exit codes."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from tests.support.fake_lan import FakeLanAgent, lan_skill
from tests.support.provider import Provider
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire.cli.call import read_inputs
from skillwire.cli.main import run
from skillwire.client.runner import SyncRunner
from skillwire.client.session import ClientSession
from skillwire.errors import FetchError, SkillwireError, UsageError
from skillwire.protocols.skill_sharing.messages import ParameterDefinition
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire import exchange
from skillwire.wire.exchange import HttpResponse


def parameter(name, kind):
    return ParameterDefinition(name=name, type=kind, description="", required=False)


KINDS = [parameter(name, name) for name in ("string", "number", "integer", "boolean", "object", "array", "other")]


class TestInputs:
    @pytest.mark.parametrize(
        ("pair", "value"),
        [
            ("string=Bern", {"string": "Bern"}),
            ("string=5", {"string": "5"}),
            ("string=a=b", {"string": "a=b"}),
            ("string=", {"string": ""}),
            ("string:=null", {"string": None}),
            ('string:="@home"', {"string": "@home"}),
            ("number=1.5", {"number": 1.5}),
            ("integer=-5", {"integer": -5}),
            ("boolean=true", {"boolean": True}),
            ('object={"a": [1]}', {"object": {"a": [1]}}),
            ("array=[]", {"array": []}),
            ("other=2025-07-01", {"other": "2025-07-01"}),
            ("unknown=text", {"unknown": "text"}),
            ("integer=many", {"integer": "many"}),
            ("number=NaN", {"number": "NaN"}),
        ],
    )
    def test_a_pair_is_read_by_the_type_that_the_skill_takes(self, pair, value):
        assert read_inputs([pair], None, KINDS) == value

    @pytest.mark.parametrize(
        ("pair", "said"),
        [
            ("city", "is not a valid input"),
            ("=Bern", "is not a valid input"),
            (":=5", "is not a valid input"),
            ("string:=Bern", "the input string must be JSON"),
            ("string=@nowhere", "the input string cannot be read: No such file"),
        ],
    )
    def test_what_cannot_be_read_is_said(self, pair, said):
        with pytest.raises(UsageError, match=said):
            read_inputs([pair], None, KINDS)

    def test_a_name_is_given_once(self):
        with pytest.raises(UsageError, match="twice"):
            read_inputs(["string=a", "string:=5"], None, KINDS)

    def test_a_file_is_a_text_or_json_by_the_type(self, tmp_path):
        (tmp_path / "a.json").write_text("[1]\n")
        (tmp_path / "b").write_bytes(b"\xff")
        name = tmp_path / "a.json"
        assert read_inputs([f"string=@{name}"], None, KINDS) == {"string": "[1]\n"}
        assert read_inputs([f"array=@{name}"], None, KINDS) == {"array": [1]}
        assert read_inputs([f"string:=@{name}"], None, KINDS) == {"string": [1]}
        with pytest.raises(UsageError, match="not UTF-8"):
            read_inputs([f"string=@{tmp_path / 'b'}"], None, KINDS)

    def test_a_document_gives_what_was_not_typed(self):
        document = {"string": "Bern", "integer": 3}
        assert read_inputs(["integer=5"], document, KINDS) == {"string": "Bern", "integer": 5}
        assert document["integer"] == 3


@pytest.fixture(scope="module")
def provider():
    with Provider() as provider:
        yield provider


@pytest.fixture
def call(provider, tmp_path, monkeypatch, capsys):
    """Give a function that runs a command line and returns exit code, output and errors."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run_line(*words):
        code = run([word.replace("PROVIDER", provider.address) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_line


def said_by(text):
    return json.loads(text)


def test_a_text_comes_as_it_is(call):
    assert call("call", "PROVIDER/table", "city=Bern") == (0, "city,high\nBern,31\n", "")


def test_json_says_everything(call):
    code, out, _ = call("call", "PROVIDER/forecast", "city=Bern", "--json")
    document = said_by(out)
    assert code == 0
    assert (document["schema"], document["status"], document["output"]["days"]) == ("skillwire/call/1", "completed", 3)
    assert document["execution_id"].startswith("exec-forecast-")
    assert [(one["name"], one["outcome"]) for one in document["rungs"]] == [("named", "found")]


def test_json_and_a_dash_reads_json_and_prints_json(call, monkeypatch, provider):
    for words in (["--json", "-"], ["--inputs", "-", "--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"city": "Bern", "days": 2}')))
        _, out, _ = call("call", "PROVIDER/forecast", *words, "days=4")
        assert said_by(out)["output"] == {"city": "Bern", "high": 31, "days": 4}
    assert provider.begun[-1]["inputs"] == {"city": "Bern", "days": 4}


def test_json_takes_no_word_away(call):
    code, out, _ = call("call", "--json", "PROVIDER/forecast", "city=Bern")
    assert (code, said_by(out)["skill_id"]) == (0, "acme/forecast")


@pytest.mark.parametrize(
    "words", [["call", "PROVIDER/broken", "city=x"], ["call", "PROVIDER/broken", "city=x", "--json"]]
)
def test_a_failed_execution_is_an_error_with_its_own_exit_code(call, words):
    code, out, errors = call(*words)
    assert code == 8
    if "--json" in words:
        error = said_by(out)["error"]
        assert (error["code"], error["details"]["details"]) == ("EXECUTION_FAILED", {"reason": "exception"})
    else:
        assert out == ""
        assert "error[EXECUTION_FAILED]: The weather station is on fire." in errors


def test_wrong_inputs_are_all_named_and_nothing_is_sent(call, provider):
    before = len(provider.begun)
    code, out, errors = call("call", "PROVIDER/forecast", "citty=Bern", "days=many")
    assert (code, out) == (2, "")
    assert errors.startswith("inputs\n  city  string   required")
    faults = 'citty is no input of this skill; did you mean city?; days must be a whole number, not "many"; city is'
    assert f"error[INPUTS]: {faults} required" in errors
    assert "/forecast.json city=...; skillwire show " in errors
    assert "fix: Correct or leave out citty, days, and write skillwire call " in errors
    assert "/inputs/" not in errors
    errors = call("call", "PROVIDER/forecast", "city=Bern", "dayz=2")[2]
    assert "fix: Correct or leave out dayz; skillwire show " in errors
    errors = call("call", "PROVIDER/forecast", "city=Bern", "days=many")[2]
    assert "fix: Correct or leave out days; skillwire show " in errors
    assert "fix: Correct city, and write skillwire call " in call("call", "PROVIDER/forecast", "city:=7")[2]
    document = said_by(call("call", "PROVIDER/forecast", "--json")[1])["error"]
    assert [one["name"] for one in document["details"]["inputs"]][:2] == ["city", "days"]
    assert len(provider.begun) == before


def test_a_newer_version_is_never_called(call, provider):
    code, _, errors = call("call", "PROVIDER/newer", "city=Bern")
    assert code == 1
    assert "error[VERSION_INCOMPATIBLE]" in errors
    assert not provider.asked("POST", "/call/newer")


def test_a_dry_run_shows_the_request_and_sends_nothing(call, provider):
    before = len(provider.begun)
    words = ["call", "PROVIDER/secret", "city=Bern", "--token", "key-1", "--priority", "low", "--timeout", "90s"]
    code, out, _ = call(*words, "--trace-id", "t-1", "--idempotency-key", "k-1", "--dry-run", "--json")
    document = said_by(out)
    assert code == 0
    assert document["request"]["headers"]["X-API-Key"] == "..."
    assert document["request"]["headers"]["Idempotency-Key"] == "k-1"
    context = document["request"]["body"]["context"]
    assert 0 < context.pop("timeout_ms") <= 90_000, "the rest of it"
    assert context == {"trace_id": "t-1", "priority": "low"}
    code, out, _ = call(*words, "--dry-run")
    assert out.startswith("POST http://127.0.0.1:")
    assert "key-1" not in out
    assert len(provider.begun) == before


def test_a_credential_goes_in_the_field_of_the_descriptor(call, provider):
    code, _, errors = call("call", "PROVIDER/secret", "city=Bern")
    assert code == 5
    assert "fix: Run skillwire auth login http://127.0.0.1:" in errors
    assert call("call", "PROVIDER/secret", "city=Bern", "--token", "key-1")[0] == 0
    assert provider.asked("POST", "/call/secret")[-1]["x-api-key"] == "key-1"


def test_without_waiting_the_id_is_printed_and_all_else_follows_from_it(call):
    code, out, errors = call("call", "PROVIDER/slow", "city=Bern", "--no-wait")
    name = out.strip()
    assert (code, errors.splitlines()) == (
        0, [f"wait: skillwire executions result {name}", f"cancel: skillwire executions cancel {name}"],
    )  # fmt: skip
    _, out, _ = call("executions", "show", name)
    rows = dict(line.split(None, 1) for line in out.splitlines())
    assert (rows["id"], rows["skill"]) == (name, "acme/slow")
    code, _, errors = call("executions", "result", name, "--no-wait")
    assert code == 9
    assert f"Wait with skillwire executions result {name}" in errors
    assert call("executions", "cancel", name)[:2] == (0, f"cancelled {name}\n")
    code, _, errors = call("executions", "cancel", name)
    assert code == 0
    assert call("executions", "result", name)[0] == 8
    assert "error[EXECUTION_CANCELLED]: Its caller took it back." in call("executions", "result", name)[2]
    _, out, _ = call("executions", "show", name, "--json")
    assert (said_by(out)["status"], said_by(out)["cancelled"]) == ("failed", True)


def test_what_has_ended_is_not_cancelled(call):
    _, out, _ = call("call", "PROVIDER/forecast", "city=Bern", "--json")
    name = said_by(out)["execution_id"]
    code, out, errors = call("executions", "cancel", name)
    assert code == 0
    assert "not cancelled: the execution had already ended" in errors
    assert out.startswith("status     completed\n")


def test_a_timeout_ends_the_wait_and_not_the_execution(call):
    code, _, errors = call("call", "PROVIDER/slow", "city=Bern", "--timeout", "1s")
    assert code == 9
    assert "error[EXECUTION_PENDING]" in errors
    assert "skillwire executions result exec-slow-" in errors


def test_the_result_goes_to_a_file(call, tmp_path):
    assert call("call", "PROVIDER/picture", "city=Bern", "-o", "picture.png")[0] == 0
    assert (tmp_path / "picture.png").read_bytes() == b"\x89PNG\r\n"
    (tmp_path / "folder").mkdir()
    code, _, errors = call("call", "PROVIDER/forecast", "city=Bern", "-o", "folder")
    assert code == 7
    assert "-o FILE writes it elsewhere" in errors, "what was executed is not lost"


def test_bytes_are_base64_in_json(call):
    _, out, _ = call("call", "PROVIDER/picture", "city=Bern", "--json")
    assert (said_by(out)["encoding"], said_by(out)["output"]) == ("base64", "iVBORw0K")


@pytest.mark.parametrize("command", ["show", "result", "cancel"])
def test_an_id_that_nobody_knows(call, command):
    code, _, errors = call("executions", command, "exec-nothing")
    assert code == 3
    assert "error[EXECUTION_UNKNOWN]: no call exec-nothing is remembered here" in errors


def test_a_url_of_a_status_will_do(call, monkeypatch, tmp_path):
    _, out, _ = call("call", "PROVIDER/forecast", "city=Bern", "--json")
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "another"))
    code, out, _ = call("executions", "result", said_by(out)["status_url"])
    assert (code, json.loads(out)["city"]) == (0, "Bern")


def test_hostile_text_is_harmless_where_a_person_reads_it(call, monkeypatch):
    monkeypatch.setattr("skillwire.cli.executions.sys.stdout", _Tty(sys.stdout))
    _, out, _ = call("call", "PROVIDER/hostile", "city=Bern")
    assert "\x1b" not in out
    assert "[U+001B][2J[U+001B][31mYour session is over.[U+202E] Type your password:\nfine\n" in out


class _Tty:
    """Standard output that says that it is a terminal."""

    def __init__(self, stream):
        self._stream = stream

    def isatty(self):
        return True

    def __getattr__(self, name):
        return getattr(self._stream, name)


def test_what_is_no_text_is_refused_before_it_is_called_where_it_could_not_be_shown(call, monkeypatch, provider):
    monkeypatch.setattr("skillwire.cli.executions.sys.stdout", _Tty(sys.stdout))
    before = len(provider.asked("POST", "/call/picture"))
    code, _, errors = call("call", "PROVIDER/picture", "city=Bern")
    assert code == 2
    assert "Write it to a file with -o FILE." in errors
    assert len(provider.asked("POST", "/call/picture")) == before


def test_an_interruption_says_how_to_go_on(call, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skillwire.resolver.calls.ExecutionFollower.follow_until", interrupt)
    code, out, errors = call("call", "PROVIDER/forecast", "city=Bern")
    assert (code, out) == (130, "")
    first, second, third = errors.splitlines()
    assert first == "interrupted; the execution continues at the provider"
    assert second.startswith("wait: skillwire executions result exec-forecast-")
    assert third.startswith("cancel: skillwire executions cancel exec-forecast-")
    monkeypatch.setattr("skillwire.client.calls.submit_until", interrupt)
    code, _, errors = call("call", "PROVIDER/forecast", "city=Basel")
    assert code == 130
    assert "the call may or may not have arrived" in errors
    monkeypatch.undo()


def test_completion_knows_the_calls(call):
    from skillwire.cli.completion import complete  # noqa: PLC0415  # only here
    from skillwire.cli.main import cli  # noqa: PLC0415  # same

    name = call("call", "PROVIDER/slow", "city=Bern", "--no-wait")[1].strip()
    for command in ("show", "result", "cancel"):
        assert [(word.value, word.help) for word in complete(cli, ["executions", command], "exec-")] == [
            (name, "acme/slow")
        ]


def test_every_error_of_a_call_is_one_of_ours(call):
    for words in (["call", "PROVIDER/nothing"], ["call", "127.0.0.1:1/x"], ["call", "./folder"], ["call"]):
        code, _, errors = call(*words)
        assert 0 < code < 70, errors
    assert issubclass(UsageError, SkillwireError)


FIRST, SECOND = (lan_skill("forecast", f"192.168.1.{number}") for number in (1, 2))
CITY = [{"name": "city", "type": "string", "description": "Where.", "required": True}]
LOST = FetchError("CONNECT_FAILED", "nobody listens there")


def answer(value, status=200):
    return HttpResponse("", status, {"content-type": "application/json"}, json.dumps(value).encode())


class Servers(SimulatedPublisher):
    """Servers of skills without a network."""

    def serve(self, skill, *outcomes, endpoint=None):
        base = f"http://{skill.endpoint}"
        entry = {**ENTRY, "descriptor_url": f"{base}/forecast.json"}
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [entry]}
        place = {"url": endpoint or f"{base}/call", "method": "POST"}
        self.answer(f"{base}/.well-known/skill-sharing", json.dumps(index).encode())
        self.answer(entry["descriptor_url"], json.dumps({**DESCRIPTOR, "endpoint": place, "inputs": CITY}).encode())
        self.reply("POST", place["url"], *outcomes)

    @property
    def bodies(self):
        return [json.loads(request.body or b"")["inputs"] for request in self.requests if request.method == "POST"]


@pytest.fixture
def servers(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    made = Servers()
    monkeypatch.setattr(ClientSession, "make_lan_agent", lambda *_: FakeLanAgent(FIRST, SECOND))
    monkeypatch.setattr(SyncRunner, "_http", lambda _: made)
    monkeypatch.setattr(SyncRunner, "close", lambda _: None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return made


def test_who_answers_is_told_beside_the_result(servers, capsys):
    servers.serve(FIRST, answer({"high": 31}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == {"high": 31}
    assert told.err == "answered by forecast of agent-1 at 192.168.1.1:8000\n"


def test_who_has_no_name_is_told_by_its_endpoint(servers, capsys, monkeypatch):
    others = [one._replace(agent_id="") for one in (FIRST, SECOND)]
    monkeypatch.setattr(ClientSession, "make_lan_agent", lambda *_: FakeLanAgent(*others))
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"high": 29}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    told = capsys.readouterr().err
    assert "skipped forecast at 192.168.1.1:8000: " in told
    assert "answered by forecast at 192.168.1.2:8000\n" in told


def test_inputs_of_standard_input_are_there_for_the_next(servers, capsys, monkeypatch):
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"high": 29}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"city": "Bern"}')))
    assert run(["call", "lan:org-data-read", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(map(str, servers.bodies)) == {"{'city': 'Bern'}"}
    assert document["output"] == {"high": 29}
    assert document["lan"]["skill"]["endpoint"] == "192.168.1.2:8000"
    assert (document["rungs"][0]["name"], document["rungs"][0]["outcome"]) == ("lan", "found")
    ((passed),) = document["lan"]["passed_over"]
    assert (passed["code"], passed["skill"]["endpoint"]) == ("CONNECT_FAILED", "192.168.1.1:8000")


def test_what_would_be_sent_is_shown_and_not_sent(servers, capsys):
    servers.serve(FIRST, answer({"high": 31}))
    assert run(["call", "lan:org-data-read", "city=Bern", "--dry-run"]) == 0
    assert "POST http://192.168.1.1:8000/call" in capsys.readouterr().out
    assert servers.bodies == []


def test_one_whose_endpoint_lies_elsewhere_on_the_network_is_passed_over(servers, capsys):
    servers.serve(FIRST, answer({}), endpoint="http://192.168.1.254:80/admin")
    servers.serve(SECOND, answer({"high": 29}))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    assert "skipped forecast of agent-1 at 192.168.1.1:8000" in capsys.readouterr().err
    assert not [one for one in servers.requests if "192.168.1.254" in one.url]


def test_inputs_that_cannot_be_read_are_refused_before_anybody_is_called(servers, capsys):
    servers.serve(FIRST, answer({}))
    assert run(["call", "lan:org-data-read", "town=Bern"]) == 2
    assert "error[INPUTS]" in capsys.readouterr().err
    assert run(["call", "lan:org-data-read", "city=@nowhere"]) == 2
    assert servers.bodies == []


def test_when_the_only_one_cannot_be_called_it_is_said_whose_it_is(servers, capsys, monkeypatch):
    monkeypatch.setattr(ClientSession, "make_lan_agent", lambda *_: FakeLanAgent(FIRST))
    servers.serve(FIRST, LOST)
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 5
    told = capsys.readouterr().err
    assert "error[DISC_006]" in told
    assert "forecast of agent-1 at 192.168.1.1:8000 was passed over: nobody listens there" in told


def test_when_nobody_can_be_called_every_reason_is_told(servers, capsys):
    servers.serve(FIRST, LOST)
    servers.serve(SECOND, answer({"error": {"code": "PERMISSION_DENIED", "message": "No."}}, 403))
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 5
    told = capsys.readouterr().err
    assert "error[DISC_006]" in told
    assert "nobody listens there" in told
    assert "at 192.168.1.2:8000 was passed over: No." in told


def test_the_output_is_all_that_standard_output_holds(call):
    code, out, errors = call("call", "PROVIDER/forecast", "city=Bern", "days=5")
    assert (code, errors) == (0, "")
    assert json.loads(out) == {"city": "Bern", "high": 31, "days": 5}


@pytest.mark.parametrize("is_refused_there", [False, True])
def test_inputs_changed_since_the_descriptor_was_kept_are_read_as_the_present_one_says(
    servers, capsys, is_refused_there
):
    def publish(*inputs):
        servers.serve(FIRST, answer({"high": 31}))
        url = f"http://{FIRST.endpoint}/forecast.json"
        document = {**DESCRIPTOR, "endpoint": {"url": f"http://{FIRST.endpoint}/call", "method": "POST"}}
        servers.answer(url, json.dumps({**document, "inputs": inputs}).encode(), cache_control="max-age=60")

    days = {"name": "days", "type": "integer", "description": "How far.", "required": True}
    publish(*CITY)
    assert run(["call", f"http://{FIRST.endpoint}/forecast", "city=Bern"]) == 0
    publish(days)
    capsys.readouterr()
    if is_refused_there:
        servers.reply("POST", f"http://{FIRST.endpoint}/call", answer({"error": {"code": "VALIDATION_ERROR"}}, 422))
        assert run(["call", f"http://{FIRST.endpoint}/forecast", "city=Bern"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("inputs\n  days  integer  required")
        assert "error[INPUTS]: city is no input of this skill; days is required" in said
    else:
        assert run(["call", f"http://{FIRST.endpoint}/forecast", "days=3"]) == 0
        assert servers.bodies[-1] == {"days": 3}


def test_a_call_that_has_become_unsafe_is_not_sent_by_the_new_method(servers):
    url = f"http://{FIRST.endpoint}/forecast.json"

    def publish(method, *inputs, **headers):
        document = {**DESCRIPTOR, "endpoint": {"url": f"http://{FIRST.endpoint}/call", "method": method}}
        servers.answer(url, json.dumps({**document, "inputs": inputs}).encode(), **headers)

    servers.serve(FIRST, FetchError("CONNECTION_LOST", "the answer was lost"))
    servers.serve(SECOND, answer({"high": 29}))
    publish("GET", *CITY, cache_control="max-age=60")
    assert run(["show", f"http://{FIRST.endpoint}/forecast"]) == 0
    publish("POST", *CITY, {**CITY[0], "name": "day", "required": False})
    servers.reply(
        "GET", f"http://{FIRST.endpoint}/call?city=Bern", answer({"error": {"code": "VALIDATION_ERROR"}}, 422)
    )
    assert run(["call", "lan:org-data-read", "city=Bern"]) == 0
    assert [one.url for one in servers.requests if one.method == "POST"] == [f"http://{SECOND.endpoint}/call"]


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 1, "a": 2}', ""])
@pytest.mark.parametrize("reference", [f"http://{FIRST.endpoint}/forecast", "lan:org-data-read"])
def test_a_document_of_inputs_is_an_object_and_is_read_before_anything_is_asked(
    servers, tmp_path, capsys, text, reference
):
    (tmp_path / "in.json").write_text(text)
    assert run(["call", reference, "--inputs", "in.json"]) in {1, 2}
    assert "--> in.json" in capsys.readouterr().err
    assert servers.requests == []


def test_a_descriptor_that_is_read_anew_takes_its_time_from_the_call(servers, monkeypatch):
    url = f"http://{FIRST.endpoint}/forecast.json"

    def publish(*inputs):
        servers.serve(FIRST, answer({"high": 31}))
        document = {**DESCRIPTOR, "endpoint": {"url": f"http://{FIRST.endpoint}/call", "method": "POST"}}
        servers.answer(url, json.dumps({**document, "inputs": inputs}).encode(), cache_control="max-age=60")

    publish(*CITY)
    assert run(["show", f"http://{FIRST.endpoint}/forecast"]) == 0
    publish({**CITY[0], "name": "town"})

    def seconds():
        return 2.0 * sum(one.url == url for one in servers.requests)

    monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=seconds))
    assert run(["call", f"http://{FIRST.endpoint}/forecast", "town=Bern", "--timeout", "60s"]) == 0
    (call,) = [one for one in servers.requests if one.method == "POST"]
    assert json.loads(call.body or b"")["context"]["timeout_ms"] == 58_000
