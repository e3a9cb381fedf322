"""``skillwire call``: call a skill and print its output.

Inputs are typed as ``city=Bern days=5 when:='{"date": "now"}' text=@notes.txt``. A value is text, or JSON where the
descriptor declares another type; ``:=`` marks JSON explicitly. ``@`` names a file, which is read in the same way; for
a blob input the file becomes a blob. A JSON object may come from a file or standard input; typed values override it.

``lan:CAPABILITY`` calls one provider after the other until one accepts.
"""

from __future__ import annotations

import json
import sys
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from skillwire import limits
from skillwire.cli.executions import Watch, check_target, conclude, execution_object, hint_next
from skillwire.cli.lan_view import provider_object, unverified_option
from skillwire.cli.options import confirm, open_client, timeout_option, token_option
from skillwire.cli.output import Output, bold, dim, output_options
from skillwire.cli.show import arguments_for, inputs_at_endpoint, kind_of, print_inputs
from skillwire.errors import DecodeError, SkillwireError, SourceLocation, TrustError, UsageError, ValidationError
from skillwire.model.skill import is_callable
from skillwire.resolver.ladder import CACHE
from skillwire.resolver.references import lan_capability, reference_to
from skillwire.resolver.sources.lan import Stage, provider_label
from skillwire.trust.guarded_json import load_json, pointer_keys
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.cli.documents_run import CallDocument, CallProvider
    from skillwire.client.calls import CallArguments, PreparedCall
    from skillwire.client.skill import RemoteSkill
    from skillwire.client.sync import Client
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skill_sharing.messages import ParameterDefinition


_STANDARD_INPUT: Final = "-"
_MOST_FAULTS: Final = 20
_BLOB: Final = "blob"
_JSON_TYPES: Final = {
    "JSON": "JSON",
    "number": "a number such as 12.5",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": 'an object such as {"a": 1}',
    "array": 'a list such as ["a", "b"]',
    "null": "null",
}


def read_inputs(
    pairs: Sequence[str],
    document: Mapping[str, Any] | None,
    parameters: Iterable[ParameterDefinition],
) -> dict[str, Any]:
    """Return the typed inputs; a value that is not JSON of the declared type stays a text, which the check refuses.

    Args:
        pairs: each a ``NAME=VALUE``, ``NAME:=JSON``, ``NAME=@FILE`` or ``NAME:=@FILE``.
        document: further inputs, which the pairs override.
        parameters: the declared inputs.
    """
    types = {parameter.name: parameter.type for parameter in parameters}
    inputs = dict(document or {})
    typed: set[str] = set()
    for pair in pairs:
        left, separator, value = pair.partition("=")
        name = left.removesuffix(":")
        if not separator or not name:
            fix = "Write NAME=VALUE, NAME:=JSON, or NAME=@FILE."
            raise UsageError("USAGE", f"{ascii(pair)[1:-1][:80]} is not a valid input", fix=fix)
        if name in typed:
            raise UsageError("USAGE", f"the input {name} is given twice")
        typed.add(name)
        kind = "JSON" if left.endswith(":") else types.get(name, "string")
        inputs[name] = _read_value(name, value, kind)
    return inputs


def _read_value(name: str, value: str, kind: str) -> Any:
    is_file = value.startswith("@")
    if is_file and kind == _BLOB:
        return Path(value[1:])
    data = _read_file(value[1:], f"the input {name}") if is_file else value.encode("utf-8", "surrogateescape")
    source = value[1:] if is_file else name
    if kind not in _JSON_TYPES:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise UsageError("USAGE", f"the input {name} is not UTF-8", place=SourceLocation(source)) from error
    try:
        return load_json(data, max_bytes=limits.CALL_INPUT_BYTES, source=source)
    except DecodeError as error:
        if is_file:
            message = f"the input {name} must be {_JSON_TYPES[kind]}"
            raise UsageError("USAGE", message, place=error.place) from error
        if kind != "JSON":
            return value
        raise UsageError("USAGE", f"the input {name} must be JSON, not {ascii(value)[:80]}") from error


def _read_object(document: str) -> dict[str, Any]:
    """Return the JSON object in the file ``document``, or on standard input for ``-``."""
    is_stream = document == _STANDARD_INPUT
    source = "standard input" if is_stream else document
    data = sys.stdin.buffer.read(limits.CALL_INPUT_BYTES + 1) if is_stream else _read_file(document, "the inputs")
    value = load_json(data, max_bytes=limits.CALL_INPUT_BYTES, source=source)
    if not isinstance(value, dict):
        raise UsageError("USAGE", "the inputs must be a JSON object", place=SourceLocation(source))
    return value


def _read_file(name: str, what: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(limits.CALL_INPUT_BYTES + 1)
    except OSError as error:
        message = f"{what} cannot be read: {error.strerror or error}"
        raise UsageError("USAGE", message, place=SourceLocation(name), fix="Name a file after the @.") from error


class CallCommand(click.Command):
    """A command that reads ``--json -`` as JSON input and JSON output."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words behind the command."""
        end = args.index("--") if "--" in args else len(args)
        for position, pair in enumerate(pairwise(args[:end])):
            if pair == ("--json", "-"):
                args = [*args[: position + 1], "--inputs=-", *args[position + 2 :]]
                break
        return super().parse_args(ctx, args)


@click.command(cls=CallCommand)
@click.argument("reference", metavar="REF")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--inputs", metavar="FILE", help="Read inputs from the JSON object in FILE; - is standard input.")
@click.option("--wait/--no-wait", default=True, help="Wait until the execution ends, or only until it is accepted.")
@timeout_option("Time limit, such as 30s, of look-ups and call together; the skill receives the rest.")
@click.option("--priority", type=click.Choice(["low", "normal", "high"]), help="Priority of the execution.")
@click.option("--trace-id", metavar="ID", help="Trace ID that identifies the call across systems.")
@click.option("--idempotency-key", metavar="KEY", help="Execute calls with the same KEY only once.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write the skill's output to FILE.")
@click.option("-y", "--yes", is_flag=True, help="Accept sending your credential to an endpoint at another origin.")
@click.option("--dry-run", is_flag=True, help="Print the request, and send nothing.")
@unverified_option
@token_option
@output_options
def command(
    *,
    output: Output,
    reference: str,
    pairs: tuple[str, ...],
    inputs: str | None,
    wait: bool,
    timeout: float | None,
    priority: str | None,
    trace_id: str | None,
    idempotency_key: str | None,
    target: str | None,
    yes: bool,
    dry_run: bool,
    use_unverified: bool | None,
    token: str | None,
) -> None:
    """Call the skill REF with inputs, and print its output.

    skillwire fetches the Skill Descriptor and checks the inputs against it. NAME=VALUE is text, or JSON if the input
    has another type; NAME:=JSON is always JSON; NAME=@FILE reads FILE. With --json - the inputs are a JSON object on
    standard input.

    REF may be a skill at a Skills Protocol endpoint, https://example.com/rpc#ns.domain.action. Its manifest replaces
    the descriptor; NAME=@FILE creates a blob for a blob input. The endpoint responds when the run has ended, so
    --no-wait does not apply, and the call is sent only once.

    REF may be lan:CAPABILITY or lan:NAME, which calls a healthy provider on the local network. If a provider fails
    before it has accepted the call, the next one is called; a call that may have been accepted is never sent to another
    provider.

    Exits with 8 when the execution fails, and with 9 when it has not ended in time.
    """
    arguments: CallArguments = {
        "wait": wait,
        "timeout": timeout,
        "priority": priority,
        "trace_id": trace_id,
        "idempotency_key": idempotency_key,
        "consent": yes,
    }
    call = CallRequest(pairs, None if inputs is None else _read_object(inputs), arguments, target, dry_run=dry_run)
    provider: CallProvider = {}
    if (capability := lan_capability(reference)) is not None:
        if token is not None:
            message = "--token is for one origin, and lan: may resolve to any origin"
            raise UsageError("USAGE", message, fix="Leave it out.")
        with open_client(output) as client:
            execution, provider = _call_lan(output, client, capability, call, use_unverified=use_unverified)
            rungs = client.rungs
    else:
        with open_client(output, references=[reference], token=token) as client:
            limit = TimeLimit(timeout)
            with output.progress.during("reading"):
                skill = client.show(reference, timeout=timeout)
                parameters, media_type = _accepted_inputs(skill)
            call = call._replace(arguments={**arguments, "timeout": limit.left()})
            rungs = client.rungs
            execution = Call(output, skill, call).make(parameters, media_type)
    if execution is None:
        return
    own = execution_object(execution)
    document: CallDocument = {"schema": "skillwire/call/1", **own, **provider, "rungs": rungs}
    if execution.is_final or wait:
        conclude(output, document, execution, target)
    else:
        output.document(document)
        output.line(str(execution.execution_id))
        hint_next(output, execution)


class CallRequest(NamedTuple):
    """A call as typed."""

    pairs: tuple[str, ...]
    inputs: Mapping[str, Any] | None
    arguments: CallArguments
    target: str | None
    dry_run: bool


class Call:
    """A call of one skill, ``checking`` its inputs and then ``calling``; ``is_safe`` if it may be repeated."""

    def __init__(self, output: Output, skill: RemoteSkill, request: CallRequest) -> None:
        self._output = output
        self._skill, self._request = skill, request
        self.stage: Stage = "checking"
        self.is_safe = False
        self._limit = TimeLimit(request.arguments["timeout"])

    def make(self, parameters: Sequence[ParameterDefinition], media_type: str) -> RemoteExecution | None:
        """Read the inputs, check the call and make it; with ``--dry-run`` show it, and return None."""
        skill = self._skill
        if self._request.target is None and not self._request.dry_run:
            _check_callable(skill)
        try:
            return self._make(parameters, media_type)
        except ValidationError as error:
            if not self._is_about_inputs(error):
                raise
            current = (parameters, media_type) if skill.rpc is not None else _accepted_inputs(skill)
            if current[0] == parameters:
                raise _wrong_inputs(self._output, skill, parameters, error) from error
        try:
            return self._make(*current)  # the inputs are read by their types
        except ValidationError as error:
            if not self._is_about_inputs(error):
                raise
            raise _wrong_inputs(self._output, skill, current[0], error) from error

    def _is_about_inputs(self, error: ValidationError) -> bool:
        return bool(error.details.get("errors")) and (self.stage != "calling" or error.may_be_accepted is False)

    def _make(self, parameters: Sequence[ParameterDefinition], media_type: str) -> RemoteExecution | None:
        skill, request = self._skill, self._request
        self.stage = "checking"
        given = read_inputs(request.pairs, request.inputs, parameters)
        arguments: CallArguments = {**request.arguments, "timeout": self._limit.left()}
        try:
            prepared = skill.prepare(given, **arguments)
        except TrustError as error:
            question = "Call it there, with your credential?"
            if error.code != "ENDPOINT_FOREIGN" or not confirm(question, about=error.message):
                raise
            arguments["consent"] = True
            self._limit = TimeLimit(arguments["timeout"])  # the user's answer takes no time from the call
            prepared = skill.prepare(given, **arguments)
        if request.dry_run:
            _print_plan(self._output, prepared)
            return None
        if request.arguments["wait"]:
            check_target(media_type, request.target, as_json=self._output.as_json)
        watch = Watch(self._output, is_at_endpoint=skill.rpc is not None)
        arguments["on_change"], arguments["timeout"] = watch.on_change, self._limit.left()
        self.stage, self.is_safe = "calling", prepared.method == "GET"
        with watch.waiting("calling"):
            return skill.call(given, **arguments)


def _check_callable(skill: RemoteSkill) -> None:
    """Refuse a skill that is only read: its descriptor leads to the artifact that ``add`` installs."""
    descriptor = None if skill.rpc is not None else skill.descriptor()
    if (
        descriptor is None
        or descriptor.inputs
        or skill.digest is None
        or is_callable(kind_of(descriptor), descriptor.capability_type)
    ):
        return
    reference = reference_to(skill.ref)
    fix = f"Install it: skillwire add {reference}; to save its archive alone, give -o FILE."
    raise UsageError("NOT_CALLABLE", f"{skill.name} is instructions for an agent: it is read, not called", fix=fix)


def _wrong_inputs(
    output: Output, skill: RemoteSkill, parameters: Sequence[ParameterDefinition], error: ValidationError
) -> UsageError:
    """Print the inputs of a skill; return the error that names all wrong ones."""
    from msgspec import to_builtins  # noqa: PLC0415  # only an error needs it

    kinds = {parameter.name: parameter.type for parameter in parameters}
    errors = cast("Sequence[Mapping[str, Any]]", error.details["errors"])
    faults: dict[str, list[str]] = {}
    wrong: dict[str, None] = {}
    needed = {parameter.name for parameter in parameters if parameter.required}
    for one in errors:
        path = pointer_keys(one["path"])[1:]
        kind = _JSON_TYPES.get(kinds.get(path[0], "")) if len(path) == 1 else None
        is_type = kind is not None and one["message"].startswith("must be of type")
        fault = f"must be {kind}, not {json.dumps(one['actual'])[:80]}" if is_type else one["message"]
        faults.setdefault(fault, []).append(".".join(path))
        if len(path) > 1 or fault != "is required":
            wrong.update(dict.fromkeys(path[:1]))
    causes = [f"{' and '.join(those)} {fault}" for fault, those in faults.items()]
    print_inputs(output, parameters, err=True)
    reference = reference_to(skill.ref)
    fix = f"Write skillwire call {reference}{arguments_for(parameters)}"
    if wrong:
        is_needed = bool(needed & wrong.keys())
        correct = f"Correct{'' if is_needed else ' or leave out'} {', '.join(islice(wrong, _MOST_FAULTS))}"
        fix = f"{correct}, and {fix[0].lower()}{fix[1:]}" if is_needed or "is required" in faults else correct
    more = f"; and {len(causes) - _MOST_FAULTS} more" if len(causes) > _MOST_FAULTS else ""
    return UsageError(
        "INPUTS",
        "; ".join(causes[:_MOST_FAULTS]) + more,
        fix=f"{fix}; skillwire show {reference} lists the inputs.",
        details={"errors": errors, "inputs": to_builtins(parameters)},
    )


def _accepted_inputs(skill: RemoteSkill) -> tuple[Sequence[ParameterDefinition], str]:
    if skill.rpc is None:
        descriptor = skill.descriptor()
        return descriptor.inputs, descriptor.output.content_type
    return inputs_at_endpoint(skill.described().manifest, skill.url) or (), "application/json"


def _print_plan(output: Output, prepared: PreparedCall) -> None:
    skill_id, method, url, headers, content, inputs = prepared
    body = None if content is None else json.loads(content)
    output.document(
        {
            "schema": "skillwire/call-plan/1",
            "skill_id": skill_id,
            "request": {"method": method, "url": url, "headers": dict(headers), "body": body},
            "inputs": dict(inputs),
        }
    )
    output.line(bold(f"{method} "), url)
    output.table([dim(name), value] for name, value in headers.items())
    if body is not None:
        output.line()
        output.text(json.dumps(body, indent=2, ensure_ascii=False))


def _call_lan(
    output: Output,
    client: Client,
    capability: str,
    request: CallRequest,
    *,
    use_unverified: bool | None,
) -> tuple[RemoteExecution | None, CallProvider]:
    """Call a provider of a capability; return the execution and the fields for ``--json``."""
    timeout = request.arguments["timeout"]
    providers = client.lan.providers(capability, use_unverified=use_unverified, timeout=timeout)
    printed = 0
    while True:
        with output.progress.waiting("asking the local network" if not printed else "looking for another provider"):
            one = client.lan.next_provider(providers)
        for passed in providers.passed[printed:]:
            output.note(dim("skipped "), passed.reason.replace(" was passed over", "", 1))
        printed = len(providers.passed)
        call: Call | None = None
        try:
            with output.progress.waiting(f"waiting for {one.name} {provider_label(one)}"):
                seconds = providers.lookup_seconds()
                skill = client.lan.skill(one, use_unverified=use_unverified, timeout=seconds)
                parameters, media_type = _accepted_inputs(skill)
            arguments: CallArguments = {**request.arguments, "timeout": providers.limit.left()}
            call = Call(output, skill, request._replace(arguments=arguments))
            execution = call.make(parameters, media_type)
        except SkillwireError as error:
            stage: Stage = "reading" if call is None else call.stage
            providers.failed(one, error, stage, is_safe=call is not None and call.is_safe)
            continue
        if execution is None:
            return None, {}
        is_kept = any(trace.name == CACHE and trace.found for trace in providers.climb.traces)
        via = ", from the cache, since no agent responded" if is_kept else ""
        output.note(dim("answered by "), bold(one.name), dim(f" {provider_label(one)}{via}"))
        return execution, {"lan": provider_object(one, providers)}
