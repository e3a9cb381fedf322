"""Calls of skills at an endpoint of the Skills Protocol, from the manifest to the output: each as a flow.

The inputs are checked against the manifest first. An input of type ``blob`` is the id of a blob, or a file or bytes,
from which a blob is created. The endpoint answers when the run has ended, so there is no status and no cancellation;
and a call is sent once, since the endpoint cannot recognize a repeated one. Trust: manifest and answer are hostile.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import astuple

from skillwire import limits
from skillwire.client.calls import CallArguments, CallOptions, PreparedCall, read_options, run_milliseconds, run_seconds
from skillwire.errors import FetchError, SourceLocation, UsageError, ValidationError
from skillwire.executions.callable_skill import InputRules
from skillwire.folder.manifest import INPUT_TYPES
from skillwire.model.execution import ExecutionStatus
from skillwire.model.ref import BLOB_PREFIX, SkillRef
from skillwire.model.remote_execution import RemoteBlob, RemoteExecution, RemoteFailure
from skillwire.protocols.skill_sharing.messages import Method, ParameterDefinition
from skillwire.protocols.skills_rpc.codec import decode_run, encode_request
from skillwire.protocols.skills_rpc.messages import ExecuteSkill, RunError
from skillwire.resolver.calls import UNSEEN
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources.skills_rpc import ask, create_blob, describe
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, seconds_of, work

_MOST_INPUTS: Final = 1_000
_BLOB_SCHEMA: Final = {"type": "string", "pattern": f"^{BLOB_PREFIX}."}
_ANY_BLOB: Final = f"{BLOB_PREFIX}..."
_BYTES: Final = "application/octet-stream"
_TIMEOUT: Final = "timeout"


class _Plan(NamedTuple):
    """A checked call: its inputs with defaults, and the content for new blobs."""

    endpoint: str
    skill: SkillRef
    inputs: Mapping[str, Any]
    files: Mapping[str, tuple[bytes, str]]
    blobs: tuple[str, ...]
    timeout: float | None


def parameters_of(manifest: Mapping[str, Any], source: str) -> list[ParameterDefinition] | None:
    """Return the inputs of a manifest as in a descriptor; None if it has no table of inputs."""
    table = manifest.get("inputs")
    if not isinstance(table, dict):
        return None
    if len(table) > _MOST_INPUTS:
        raise ValidationError("RPC_ANSWER", f"a manifest with {len(table):,} inputs came", place=SourceLocation(source))
    return [_parameter(name, one if isinstance(one, dict) else {}) for name, one in table.items()]


def required_parameters(manifest: Mapping[str, Any], source: str) -> list[ParameterDefinition]:
    """Return the required inputs of a manifest; if it marks none, all inputs without a default."""
    parameters = parameters_of(manifest, source) or []
    return [one for one in parameters if one.required] or [one for one in parameters if not one.has_default]


class EndpointCalls:
    """The calls of one client, with its ``context``."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def prepare(self, skill: SkillRef, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[PreparedCall]:
        """Check a call and return its request, in which the digest of a new blob is its id."""
        plan = yield from self._plan(skill, inputs, read_options(arguments))
        made = {name: BLOB_PREFIX + hashlib.sha256(content).hexdigest() for name, (content, _) in plan.files.items()}
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._context.credential_for(plan.endpoint) is not None:
            headers["Authorization"] = "..."
        params = _params(plan, made)
        body = encode_request("execute_skill", params, 1)
        return PreparedCall(plan.skill.name, Method.POST, plan.endpoint, headers, body, params.args)

    def call(self, skill: SkillRef, inputs: Mapping[str, Any], arguments: CallArguments) -> Flow[RemoteExecution]:
        """Call a skill; return its run as an ended execution."""
        options = read_options(arguments)
        plan = yield from self._plan(skill, inputs, options)
        made = {}
        for name, (content, kind) in plan.files.items():
            blob = yield from create_blob(plan.endpoint, content, kind, self._context)
            made[name] = blob.blob_id
        try:
            run = yield from ask(
                plan.endpoint, _params(plan, made), self._context, decode_run, timeout=run_seconds(plan.timeout)
            )
        except FetchError as error:
            if error.code in UNSEEN:
                error.fix = "It may have been executed: check its effect before you call it again."
            raise
        failure = None
        status = ExecutionStatus.COMPLETED
        if run.status == "failed":
            cause = run.error or RunError("failed", run.summary or "the endpoint gives no reason")
            kind, message = cause.type, cause.message
            status = ExecutionStatus.TIMEOUT if kind == _TIMEOUT else ExecutionStatus.FAILED
            failure = RemoteFailure(kind, message, {"reason": kind})
        return RemoteExecution(
            execution_id=run.run_id,
            skill_id=plan.skill.name,
            reference=reference_to(plan.skill),
            status=status,
            output=run.output,
            error=failure,
            summary=run.summary,
            log=run.logs_preview,
            blobs=tuple(RemoteBlob(*astuple(blob)) for blob in run.output_blobs),
        )

    def _plan(self, skill: SkillRef, inputs: Mapping[str, Any], options: CallOptions) -> Flow[_Plan]:
        _check_options(options)
        timeout = seconds_of(options.timeout)
        described = yield from describe(skill, self._context)
        reference = reference_to(skill)
        assert skill.rpc is not None  # noqa: S101  # only such skills come here
        endpoint = skill.rpc.endpoint
        if described.manifest.get("kind") == "instruction":
            fix = f"skillwire show {reference} --body shows it."
            python = f"client.show({reference!r}).body()"
            message = f"{skill.name} is an instruction: it is read, not called"
            raise UsageError("USAGE", message, fix=fix, in_python=python)
        files = {}
        for name, value in inputs.items():
            if isinstance(value, bytes | Path):
                files[name] = yield from work(partial(_content, name, value))
        checked = dict(inputs) | dict.fromkeys(files, _ANY_BLOB)
        blobs = [name for name, value in checked.items() if isinstance(value, str) and value.startswith(BLOB_PREFIX)]
        parameters = parameters_of(described.manifest, endpoint)
        if parameters is not None:
            try:
                checked = InputRules(parameters).apply(checked)
            except ValidationError as error:
                error.message = neutralise(error.message)  # it has names and values of an untrusted manifest
                texts = {name: value for name, value in checked.items() if isinstance(value, str)}
                wrong = [
                    one.name
                    for one in parameters
                    if one.type == "blob" and not texts.get(one.name, BLOB_PREFIX).startswith(BLOB_PREFIX)
                ]
                file = f"For a file write {wrong[0]}=@FILE; " if wrong else ""
                error.fix = f"{file}skillwire show {reference} lists its inputs."
                error.in_python = f"client.show({reference!r}).described().manifest"
                raise
            blobs = [one.name for one in parameters if one.type == "blob" and one.name in checked]
            for name in files:
                if name not in blobs:
                    message = f"the input {name} is no blob, and a file or bytes were given"
                    raise UsageError("USAGE", message, fix="Give the value itself.")
        return _Plan(endpoint, skill, checked, files, tuple(blobs), timeout)


def _check_options(options: CallOptions) -> None:
    """Refuse options that the protocol lacks."""
    if not options.wait:
        message = "an endpoint of the Skills Protocol answers when the run has ended: there is no call without waiting"
        fix = "Leave out --no-wait; --timeout bounds how long it takes."
        raise UsageError("USAGE", message, fix=fix, in_python="wait=True, timeout=30")
    given = {
        "priority": options.priority,
        "trace ID": options.trace_id,
        "idempotency key": options.idempotency_key,
    }
    if unknown := [name for name, value in given.items() if value is not None]:
        message = f"a call of the Skills Protocol has no {', '.join(unknown)}"
        raise UsageError("USAGE", message, fix="Leave it out.")


def _content(name: str, value: bytes | Path) -> tuple[bytes, str]:
    """Return the bytes of a new blob, and their media type by the file's name."""
    if isinstance(value, bytes):
        return value, _BYTES
    try:
        with value.open("rb") as file:
            content = file.read(limits.CALL_INPUT_BYTES + 1)
    except OSError as error:
        message = f"the input {name} cannot be read: {error.strerror or error}"
        raise UsageError("USAGE", message, place=SourceLocation(str(value)), fix="Name a file behind the @.") from error
    if len(content) > limits.CALL_INPUT_BYTES:
        message = f"the input {name} is larger than {limits.CALL_INPUT_BYTES:,} bytes"
        raise UsageError("USAGE", message, place=SourceLocation(str(value)))
    return content, mimetypes.guess_type(value.name)[0] or _BYTES


def _params(plan: _Plan, made: Mapping[str, str]) -> ExecuteSkill:
    args = {**plan.inputs, **made}
    ids = dict.fromkeys(args[name] for name in plan.blobs if isinstance(args.get(name), str))
    return ExecuteSkill(
        name=plan.skill.name,
        args=args,
        version=plan.skill.version,
        input_blobs=tuple(ids),
        timeout_ms=run_milliseconds(plan.timeout),
    )


def _parameter(name: str, table: Mapping[str, Any]) -> ParameterDefinition:
    kind, description, default = table.get("type"), table.get("description"), table.get("default")
    schema = table.get("schema")
    kind = kind if kind in INPUT_TYPES else "any"
    return ParameterDefinition(
        name=name,
        type=kind,
        description=neutralise(description[: limits.DESCRIPTION_LENGTH]) if isinstance(description, str) else "",
        required=table.get("required") is True,
        default=UNSET if default is None else default,
        schema=_BLOB_SCHEMA if kind == "blob" else schema if isinstance(schema, dict) else UNSET,
    )
