"""``skillwire find`` and ``which``: search origins or the local network, and resolve and explain a reference."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Final, Unpack

import click

from skillwire.adapters.files.credentials import credential_place
from skillwire.cli.lan_view import UNHEARD, heard, lan_object, status_text, trust_text
from skillwire.cli.options import (
    NetworkOptions,
    ago,
    count_others,
    network_options,
    open_client,
    plural,
    ref_object,
    refresh_option,
    scope_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import Output, Part, bold, dim, failure, output_options, success, warning
from skillwire.errors import SkillwireError, UsageError
from skillwire.model.skill import capability_text
from skillwire.model.url import parse_url
from skillwire.resolver.ladder import CACHE, DHT, NAMED, RungTrace
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources import LAN, SKILLS_RPC
from skillwire.resolver.sources.lan import asked_capability, describe_lan_skill, provider_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillwire.cli.documents import FindHit, HitFacts, LookupObject, WhichDocument
    from skillwire.model.lan import LanSkill
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.context import Attempt
    from skillwire.resolver.which import InstalledHere, OriginTrust, Resolution, Step


_ROOM: Final = 24  # columns that a description or a list of capabilities needs


@click.command()
@click.argument("query", nargs=-1)
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Origin to search; repeatable.")
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Maximum number of results."
)
@click.option(
    "--type",
    "capability_type",
    type=click.Choice(["api", "plugin", "knowledge", "task"]),
    help="Only skills that Skill Sharing lists with this type.",
)
@click.option("--lan", is_flag=True, help="Search the local network instead of origins.")
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    query: tuple[str, ...],
    origins: tuple[str, ...],
    limit: int,
    capability_type: str | None,
    lan: bool,
    **network: Unpack[NetworkOptions],
) -> None:
    """Search for skills by QUERY; without one, list all skills.

    Searches the origins given with --from, or the configured sources, with Agent Skills Discovery and Skill Sharing;
    and Skills Protocol endpoints, https://example.com/rpc, or https://example.com/rpc#ns. for one namespace.

    With --lan, searches the local network by name, capability or scene; without an answer, the SkillCenter of the
    settings and then the cache. Each row shows the skill's health and trust.
    """
    words = " ".join(query)
    if lan:
        if origins or capability_type is not None or network["token"] is not None:
            fix = "Leave them out: a local network search has no single origin."
            raise UsageError("USAGE", "--lan excludes --from, --type and --token", fix=fix)
        origins = (f"{LAN}:",)
    with open_client(output, references=() if lan else origins, **network) as client:
        with output.progress.waiting("asking the local network") if lan else output.progress.during("reading"):
            hits = client.find(words, origins, capability_type=capability_type)
        rungs = client.rungs
        may_use = any(skill.ref.lan for skill, _ in hits) and client.lan.settings.use_unverified
        port = client.lan.settings.port if lan else 0
    found = [(skill.ref, score) for skill, score in hits if not lan or _has_reference(output, skill.ref)]
    shown = found[:limit]
    rows = [_hit(ref, score) for ref, score in shown]
    output.document({"schema": "skillwire/find/1", "query": words, "total": len(found), "hits": rows, "rungs": rungs})
    refs = [ref for ref, _ in shown]
    _print_lan_hits(output, [ref.lan for ref in refs if ref.lan is not None])
    if others := [ref for ref in refs if ref.lan is None]:
        # An answer within its HTTP lifetime is as good as a new one, unless its source has failed since.
        has_failed = any(rung.name == CACHE and rung.outcome == "found" for rung in rungs)
        _print_hits(output, others, {"stale", "cached"} if has_failed else {"stale"})
    count_others(output, len(found), limit)
    if len(rungs) > 1 and rungs[0].outcome != "found":
        output.note(dim("tried "), ", ".join(str(rung) for rung in rungs if rung.attempts))
    if refs:
        output.hint("show details:", f"skillwire show {reference_to(refs[0])}")
        _hint_call(output, [ref.lan for ref in refs if ref.lan is not None], words, may_use=may_use)
    elif lan:
        _hint_lan(output, words, port, has_hits=bool(hits))
    elif words:
        output.note(f"no skill matches {words!r}")
        over_udp = any(rung.attempts for rung in rungs if rung.name in {LAN, DHT})
        has_asked = output.progress.has_traffic or over_udp
        if not (has_asked or network["offline"]):
            places = [part for origin in origins for part in ("--from", origin)]
            output.hint("only the cache was asked:", shlex.join(["skillwire", "find", *query, *places, "--refresh"]))
    elif rungs and not any(rung.attempts for rung in rungs if rung.name != CACHE):
        why = "; ".join(f"{rung.name}: {rung.reason}" for rung in rungs if rung.reason)
        output.note(f"no source was asked ({why})")
    else:
        output.note("the origin publishes no skills")


def _print_hits(output: Output, refs: Sequence[SkillRef], marked: set[str]) -> None:
    """Print a table, with the freshness of ``marked`` kinds.

    Where it would leave no room for a description, a line for that stands below each name.
    """
    has_types = any(ref.shared or ref.rpc for ref in refs)
    marks = [ref.freshness if ref.freshness in marked else "" for ref in refs]
    facts = [
        [ref.version or "-", *([_type_and_access(ref)] if has_types else []), *([mark] if any(marks) else [])]
        for ref, mark in zip(refs, marks, strict=True)
    ]
    rows = [[ref.name, *cells] for ref, cells in zip(refs, facts, strict=True)]
    room = terminal_width() - sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
    if room >= _ROOM:
        output.table(
            [bold(name), *map(dim, cells), shortened(_described(ref), room)]
            for ref, (name, *cells) in zip(refs, rows, strict=True)
        )
        return
    for ref, cells in zip(refs, facts, strict=True):
        output.line(bold(ref.name), dim("".join(f"  {cell}" for cell in cells if cell != "-")))
        output.line("  ", shortened(_described(ref), terminal_width() - 2))


def _described(ref: SkillRef) -> str:
    """Return the description of a skill behind its state, where that is not active."""
    if ref.release is None or ref.release.status == "active":
        return ref.description
    successor = f", use {ref.release.successor}" if ref.release.successor else ""
    return f"[{ref.release.status}{successor}] {ref.description}"


def _type_and_access(ref: SkillRef) -> str:
    if ref.rpc is not None or ref.shared is None:
        return capability_text(ref.rpc and ref.rpc.kind, None)
    access = "" if ref.shared.access == "public" else f" {ref.shared.access}"
    return capability_text(None, ref.shared.capability_type) + access


def _hint_call(output: Output, skills: Sequence[LanSkill], words: str, *, may_use: bool) -> None:
    usable = [skill for skill in skills if skill.is_usable]
    able = next((skill for skill in usable if skill.capabilities), next(iter(usable), None))
    if able is not None:
        flag = "" if able.is_verified or may_use else " --unverified"
        output.hint("call one:    ", f"skillwire call lan:{asked_capability(able, words)}{flag}")


def _hint_lan(output: Output, words: str, port: int, *, has_hits: bool) -> None:
    """Print what helps where no skill can be shown; ``has_hits``: some were found, and have no reference."""
    if not has_hits:
        no_match = f"no skill on the local network matches {words!r}"
        output.note(no_match if words else "no agent on the local network offers skills")
    output.hint("list all agents:", "skillwire lan")
    if not (words or has_hits):
        output.hint(UNHEARD.format(port), "skillwire doctor")


def _has_reference(output: Output, ref: SkillRef) -> bool:
    """Whether a skill has a typable address; one without it is reported."""
    try:
        return bool(reference_to(ref))
    except SkillwireError as error:
        output.note(dim("left out "), f"{ref.name} {provider_label(ref)}: {error.message}")
        return False


def _print_lan_hits(output: Output, skills: Sequence[LanSkill]) -> None:
    rows: list[list[Part]] = []
    for skill in skills:
        via = str(skill.found_via) if skill.freshness == "live" else f"{skill.freshness}, {heard(skill, time.time())}"
        health = (status_text(skill), trust_text(skill), dim(via) if skill.freshness == "live" else warning(via))
        rows.append([bold(skill.skill_id), dim(skill.version), *health, dim(skill.endpoint)])
    widths = [max(len(cell.text) for cell in column) + 2 for column in zip(*rows, strict=True)]
    room = max(terminal_width() - sum(widths), _ROOM)
    output.table([*row, shortened(describe_lan_skill(skill), room)] for row, skill in zip(rows, skills, strict=True))


def _hit(ref: SkillRef, score: float) -> FindHit:
    more: HitFacts = {} if ref.lan is None else {"lan": lan_object(ref.lan)}
    if ref.release is not None and ref.release.status != "active":
        more["state"] = {"status": ref.release.status, "reason": ref.release.reason, "successor": ref.release.successor}
    return {**ref_object(ref), "score": round(score, 3), **more}


@click.command()
@click.argument("reference", metavar="REF")
@click.option(
    "--explain", is_flag=True, help="Print every lookup, the trust decision, installed copies, and why this skill won."
)
@scope_option
@network_options
@refresh_option
@output_options
def which_command(
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
