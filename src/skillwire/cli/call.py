"""``skillwire call``: call a skill, and wait for what it gives."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from skillwire.cli.client_options import confirm, open_client, open_progress, token_option
from skillwire.cli.duration import Duration
from skillwire.cli.lan_parts import unverified_option
from skillwire.cli.output import faint, output_options, strong
from skillwire.errors import TrustError, UsageError
from skillwire.resolver.lan import lan_capability
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.cli.progress import Progress
    from skillwire.client.call_values import CallArguments, PreparedCall
    from skillwire.client.synchronous import RemoteSkill
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skill_sharing.messages import ParameterDefinition
    from skillwire.resolver.lan import Stage


class CallCommand(click.Command):
    """Reads ``--json -`` as what it says: JSON in, and JSON out."""

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
@click.option("--wait/--no-wait", default=True, help="Wait for the end; or only until it was accepted.")
@click.option(
    "--timeout", type=Duration(), metavar="TIME", help="How long it may take, such as 30s; the skill is told."
)
@click.option("--priority", type=click.Choice(["low", "normal", "high"]), help="How urgent it is.")
@click.option("--trace-id", metavar="ID", help="Identifies the call across systems.")
@click.option("--idempotency-key", metavar="KEY", help="Execute once what is called with KEY, however often it is.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write what the skill gives to FILE.")
@click.option("-y", "--yes", is_flag=True, help="Agree to be known at an endpoint of another origin.")
@click.option("--dry-run", is_flag=True, help="Show the request, send nothing.")
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
    """Call the skill REF with inputs, and wait for what it gives.

    The Skill Descriptor is fetched and checked first, then the inputs by it. NAME=VALUE is a text, or JSON where the
    skill takes another type; NAME:=JSON is JSON anyway, NAME=@FILE is what FILE holds. With --json - the inputs come as
    a JSON object from standard input.

    REF may be a skill at an endpoint of the Skills Protocol, https://example.com/rpc#ns.domain.action. Its manifest
    takes the place of the descriptor; NAME=@FILE makes a blob of FILE for an input that is one. The endpoint answers
    when the run has ended, so there is no --no-wait, and such a call is sent once.

    REF may be lan:CAPABILITY: whoever on the local network offers it and is well, or the next where that one fails
    before it has accepted the call. What may have been accepted is never sent to another.

    Ctrl-C stops waiting and cancels nothing. Lost connections are mended, and the call is executed once.
    """
    from skillwire.cli.executions import conclude, execution_object  # noqa: PLC0415  # --help does without

    arguments: CallArguments = {
        "wait": wait,
        "timeout": timeout,
        "priority": priority,
        "trace_id": trace_id,
        "idempotency_key": idempotency_key,
        "consent": yes,
    }
    wanted = Wanted(pairs, inputs, arguments, target, dry_run=dry_run)
    progress = open_progress(output)
    more: dict[str, Any] = {}
    if (capability := lan_capability(reference)) is not None:
        from skillwire.cli.call_lan import call_lan  # noqa: PLC0415  # few calls are of the local network

        if token is not None:
            raise UsageError("USAGE", "--token is for one origin, and lan: may mean any", fix="Leave it out.")
        with open_client(output, progress=progress) as client:
            execution, more = call_lan(output, progress, client, capability, wanted, use_unverified=use_unverified)
    else:
        with open_client(output, references=[reference], token=token, progress=progress) as client:
            with progress.during("reading"):
                skill = client.skill(reference)
                parameters, media_type = what_it_takes(skill)
            execution = Call(output, progress, skill, wanted).make(parameters, media_type)
    if execution is None:
        return
    if execution.is_final or wait:
        conclude(output, "call/1", execution, target, more)
    else:
        output.document("call/1", {**execution_object(execution), **more})
        _print_accepted(output, execution)


class Wanted(NamedTuple):
    """A call as it was typed."""

    pairs: tuple[str, ...]
    inputs: str | dict[str, Any] | None
    arguments: CallArguments
    target: str | None
    dry_run: bool


class Call:
    """A call of one skill, step by step.

    ``stage`` says how far it is: ``checking`` it against what the skill takes, or ``calling``; ``is_safe`` whether it
    may be made twice.
    """

    def __init__(self, output: Output, progress: Progress, skill: RemoteSkill, wanted: Wanted) -> None:
        self._output, self._progress = output, progress
        self._skill, self._wanted = skill, wanted
        self.stage: Stage = "checking"
        self.is_safe = False

    def make(self, parameters: Sequence[ParameterDefinition], media_type: str) -> RemoteExecution | None:
        """Read the inputs, check the call and make it; with ``--dry-run`` show it, and return None."""
        from skillwire.cli.call_inputs import read_inputs  # noqa: PLC0415  # --help does without
        from skillwire.cli.executions import Watch, check_target  # noqa: PLC0415  # same

        skill, wanted = self._skill, self._wanted
        look = f"skillwire show {reference_to(skill.ref)}" + ("" if skill.rpc is not None else " --descriptor")
        given = read_inputs(wanted.pairs, wanted.inputs, parameters, look)
        arguments = wanted.arguments.copy()
        prepared = _prepare(skill, given, arguments)
        if wanted.dry_run:
            _print_plan(self._output, prepared)
            return None
        if wanted.arguments["wait"]:
            check_target(media_type, wanted.target, as_json=self._output.as_json)
        watch = Watch(self._output, self._progress, is_at_endpoint=skill.rpc is not None)
        arguments["on_change"] = watch.told
        self.stage, self.is_safe = "calling", prepared.method == "GET"
        with watch.waiting("calling"):
            return skill.call(given, **arguments)


def what_it_takes(skill: RemoteSkill) -> tuple[Sequence[ParameterDefinition], str]:
    """Return the inputs of a skill, and the media type of what it gives."""
    if skill.rpc is None:
        descriptor = skill.descriptor()
        return descriptor.inputs, descriptor.output.content_type
    from skillwire.client.endpoint_calls import parameters_of  # noqa: PLC0415  # few skills are at an endpoint

    return parameters_of(skill.described().manifest, skill.url) or (), "application/json"


def _prepare(skill: RemoteSkill, given: dict[str, Any], arguments: CallArguments) -> PreparedCall:
    """Check the call; ask whether it may be made in the user's name elsewhere, where that is in question."""
    try:
        return skill.prepare(given, **arguments)
    except TrustError as error:
        if error.code != "ENDPOINT_FOREIGN" or not confirm("Call it there, with your credential?", about=error.message):
            raise
        arguments["consent"] = True
        return skill.prepare(given, **arguments)


def _print_plan(output: Output, prepared: PreparedCall) -> None:
    import json  # noqa: PLC0415  # only --dry-run needs it

    body = None if prepared.body is None else json.loads(prepared.body)
    request = {"method": prepared.method, "url": prepared.url, "headers": dict(prepared.headers), "body": body}
    output.document("call-plan/1", {"skill_id": prepared.skill_id, "request": request, "inputs": dict(prepared.inputs)})
    output.line(strong(f"{prepared.method} "), prepared.url)
    output.table([faint(name), value] for name, value in prepared.headers.items())
    if body is not None:
        output.line()
        output.text(json.dumps(body, indent=2, ensure_ascii=False))


def _print_accepted(output: Output, execution: Any) -> None:
    from skillwire.cli.executions import hint_next  # noqa: PLC0415  # --help does without

    output.line(execution.execution_id)
    hint_next(output, execution)
