"""``skillwire call lan:CAPABILITY``: whoever on the local network offers it, one after the other until one accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillwire.cli.call import Call, what_it_takes
from skillwire.cli.lan_parts import provider_object
from skillwire.cli.output import faint, strong
from skillwire.errors import SkillwireError
from skillwire.model.lan import FoundVia

if TYPE_CHECKING:
    from skillwire.cli.call import Wanted
    from skillwire.cli.output import Output
    from skillwire.cli.progress import Progress
    from skillwire.client.synchronous import Client
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.resolver.lan import Stage


def call_lan(
    output: Output,
    progress: Progress,
    client: Client,
    capability: str,
    wanted: Wanted,
    *,
    use_unverified: bool | None,
) -> tuple[RemoteExecution | None, dict[str, Any]]:
    """Call a provider of a capability; return the execution, and who has answered for ``--json``.

    Who is passed over is told at once, with the reason; and so is who has answered.
    """
    if isinstance(wanted.inputs, str):  # standard input can be read once, and several may be tried
        from skillwire.cli.call_inputs import read_object  # noqa: PLC0415  # --help does without

        wanted = wanted._replace(inputs=read_object(wanted.inputs))
    with progress.waiting("asking the local network"):
        providers = client.lan.providers(capability, use_unverified=use_unverified)
    told = 0
    while True:
        one = providers.next()
        for passed in providers.passed[told:]:
            output.note(faint("passed over "), passed.told.replace(" was passed over", "", 1))
        told = len(providers.passed)
        call: Call | None = None
        try:
            with progress.during("reading"):
                skill = client.lan.skill(one, use_unverified=use_unverified)
                parameters, media_type = what_it_takes(skill)
            call = Call(output, progress, skill, wanted)
            execution = call.make(parameters, media_type)
        except SkillwireError as error:
            stage: Stage = "reading" if call is None else call.stage
            providers.failed(one, error, stage, is_safe=call is not None and call.is_safe)
            continue
        via = ", remembered from before, since nobody has answered now" if one.found_via is FoundVia.CACHE else ""
        if execution is None:
            return None, {}
        output.note(faint("answered by "), strong(one.skill_id), faint(f" {one.whose}{via}"))
        return execution, {"lan": provider_object(one, providers.passed)}
