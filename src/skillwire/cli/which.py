"""``skillwire which``: resolve a reference, and explain the result."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

import click

from skillwire.adapters.files.credentials import credential_place
from skillwire.cli.options import (
    NetworkOptions,
    ago,
    network_options,
    open_client,
    plural,
    ref_object,
    refresh_option,
    scope_option,
)
from skillwire.cli.output import Output, Part, bold, dim, failure, output_options, success, warning
from skillwire.model.url import parse_url
from skillwire.resolver.ladder import NAMED, RungTrace
from skillwire.resolver.sources import SKILLS_RPC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillwire.cli.documents import LookupObject, WhichDocument
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.context import Attempt
    from skillwire.resolver.which import InstalledHere, OriginTrust, Resolution, Step


@click.command()
@click.argument("reference", metavar="REF")
@click.option(
    "--explain", is_flag=True, help="Print every lookup, the trust decision, installed copies, and why this skill won."
)
@scope_option
@network_options
@refresh_option
@output_options
def command(
    *, output: Output, reference: str, explain: bool, for_user: bool, **network: Unpack[NetworkOptions]
) -> None:
    """Resolve REF to a skill: its origin, artifact URL and digest.

    Only indexes are downloaded. REF may name all skills of an index, or of a Skills Protocol endpoint
    (https://example.com/rpc#). --explain queries both Agent Skills Discovery and Skill Sharing.
    """
    token = network["token"]
    with open_client(output, references=[reference], for_user=for_user, **network) as client:
        resolution = client.which(reference, explain=explain)
    if explain or resolution.error is None:  # else the error is the whole answer
        output.document(_document(resolution, token))
        for skill in resolution.found:
            mark = warning("  stale") if skill.freshness == "stale" else ""
            output.line(bold(skill.name), f" {skill.version or ''}".rstrip(), "  ", skill.url, mark)
            output.line(dim(f"  {_assurance(skill)}"))
    if explain:
        _explain(output, resolution, token)
    if resolution.error is not None:
        raise resolution.error


def _assurance(skill: SkillRef) -> str:
    if skill.is_only_described:
        return "listed by Skill Sharing, which has no digests: it is called, not installed"
    if skill.rpc is not None:
        return "at a Skills Protocol endpoint, which has no digests: it is used there, not installed"
    if skill.git is not None:
        return f"commit {skill.git.commit}"
    return skill.digest or "no digest: the download cannot be verified"


def _explain(output: Output, resolution: Resolution, token: str | None) -> None:
    if resolution.rungs:
        output.line()
        output.line(bold("sources"), dim("  in this order"))
        output.table(_rung_row(resolution.rungs, number) for number in range(len(resolution.rungs)))
    if resolution.steps:
        output.line()
        output.line(bold("looked up"), dim("  in this order"))
        _print_steps(output, resolution.steps, token)
    if resolution.why:
        output.line()
        output.line(bold("reason"), f"  {resolution.why}")
    if resolution.beyond:
        output.line()
        output.line(bold("alternatives"), dim("  sources after the one that won"))
        _print_steps(output, resolution.beyond, token)
        for skill in resolution.others:
            output.line("  ", warning("also published: "), f"{skill.origin}/{skill.name} {skill.version or ''}")
    if resolution.standing is not None:
        output.line()
        output.line(bold("trust"), f"  {resolution.standing.origin}")
        output.table([f"  {label}", value] for label, value in _standing_rows(resolution.standing))
    if resolution.found:
        output.line()
        output.line(bold("installed"), "" if resolution.installed else "  no")
        output.table([f"  {row.locked.name}", *_installed_cells(row)] for row in resolution.installed)


def _rung_row(rungs: Sequence[RungTrace], number: int) -> list[Part]:
    rung = rungs[number]
    color = {"found": success, "failed": failure, "refused": failure, "timeout": warning}.get(rung.outcome, dim)
    time = f"{rung.seconds:.1f} s" if rung.attempts else ""
    tries = f", {rung.attempts} attempts" if rung.attempts > 1 else ""
    why = plural(rung.found, "skill") if rung.found else rung.reason
    if rung.code:  # the lookups of named places have their reasons
        why = f"[{rung.code}]" if rung.name == NAMED else f"{why} [{rung.code}]"
    return [f"  {'└─' if number + 1 == len(rungs) else '├─'} {rung.name}", color(rung.outcome), time + tries, why]


def _print_steps(output: Output, steps: Sequence[Step], token: str | None) -> None:
    width = len(str(len(steps)))
    for number, step in enumerate(steps, 1):
        output.line(f"  {number:>{width}}  {step.attempt.url}")
        for part in _step_details(step, token):
            output.line(" " * (width + 4), part)


def _step_details(step: Step, token: str | None) -> Iterator[Part]:
    attempt = step.attempt
    if attempt.error is not None:
        yield failure(f"{attempt.error.message} [{attempt.error.code}]")
    elif attempt.answered_by is None:
        yield dim("no index there")
    else:
        is_endpoint = attempt.generation == SKILLS_RPC
        what = "endpoint of the Skills Protocol" if is_endpoint else f"index {attempt.generation}"
        yield success(f"{what}, {plural(attempt.entries, 'skill')}")
    if attempt.answered_by is not None:
        yield dim(_freshness(attempt))
    if attempt.has_credential:
        yield dim(f"with the credential from {_credential_place(attempt.url, token)}")
    yield dim("the address policy allows it") if step.refused is None else failure(step.refused.message)


def _freshness(attempt: Attempt) -> str:
    ways = {
        "cache": f"from the cache, {ago(round(attempt.age))} old",
        "revalidation": "from the cache, revalidated with the origin",
        "origin": "fetched just now",
    }
    rest = f"fresh for {ago(round(attempt.fresh_for))}" if attempt.fresh_for else "revalidated on each use"
    if attempt.answered_by == "cache" and not attempt.fresh_for:
        rest = "stale, which --offline alone uses"
    return f"{ways[attempt.answered_by or 'origin']}; {rest}"


def _credential_place(url: str, token: str | None) -> str:
    return "--token" if token is not None else credential_place(parse_url(url), os.environ) or "the client"


def _standing_rows(standing: OriginTrust) -> list[tuple[str, Part]]:
    decisions = {"allow": success("installs without asking"), "ask": warning("asks before installing"),
                 "refuse": failure("refused by only_trusted")}  # fmt: skip
    has_agreed = standing.decision == "allow" and not standing.is_listed
    reasons = "you agreed to it" if has_agreed else f"it is {'' if standing.is_listed else 'not '}in trusted_origins"
    rows: list[tuple[str, Part]] = [("decision", decisions[standing.decision]), ("because", reasons)]
    record = standing.record
    if record is not None:
        agreed = "confirmed by you" if record.accepted else "not confirmed"
        rows += [("known since", record.first_seen), ("consent", agreed)]
        rows.append(("highest index", record.generation or "none yet"))
    return rows


def _installed_cells(row: InstalledHere) -> list[Part]:
    if not row.is_same_origin:
        state: Part = warning(f"from elsewhere: {row.locked.origin}")
    elif row.is_current is None:
        state = dim("no digest to compare with")
    else:
        state = success("same as at the origin") if row.is_current else warning("differs from the origin")
    return [row.locked.version or "", state, "" if row.is_intact else failure("its files differ from the lock")]


def _document(resolution: Resolution, token: str | None) -> WhichDocument:
    standing = resolution.standing
    record = standing.record if standing else None
    return {
        "schema": "skillwire/which/1",
        "reference": resolution.reference,
        "error": resolution.error.diagnostics() if resolution.error else None,
        "skills": [{**ref_object(skill), "url": skill.url, "index": skill.index_url} for skill in resolution.found],
        "why": resolution.why,
        "rungs": resolution.rungs,
        "lookups": [_step_object(step, token) for step in resolution.steps],
        "others": [ref_object(skill) for skill in resolution.others],
        "other_lookups": [_step_object(step, token) for step in resolution.beyond],
        "trust": standing and {
            "origin": standing.origin,
            "decision": standing.decision,
            "in_trusted_origins": standing.is_listed,
            "known_since": record.first_seen if record else None,
            "agreed": record.accepted if record else False,
        },
        "installed": [
            {
                "name": row.locked.name,
                "version": row.locked.version,
                "digest": row.locked.digest,
                "same_origin": row.is_same_origin,
                "current": row.is_current,
                "intact": row.is_intact,
            }
            for row in resolution.installed
        ],
    }  # fmt: skip


def _step_object(step: Step, token: str | None) -> LookupObject:
    attempt = step.attempt
    return {
        "url": attempt.url,
        "answered_by": attempt.answered_by,
        "age_seconds": round(attempt.age, 1),
        "fresh_for_seconds": round(attempt.fresh_for, 1),
        "generation": attempt.generation,
        "entries": attempt.entries,
        "credential": _credential_place(attempt.url, token) if attempt.has_credential else None,
        "address_policy": "allowed" if step.refused is None else step.refused.code,
        "error": attempt.error.diagnostics() if attempt.error else None,
    }
