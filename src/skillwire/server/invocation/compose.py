"""Putting executions together: the ledger in the state folder, who runs them, who answers for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skillwire.adapters.clock import moment
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.memory.dispatcher import LocalDispatcher
from skillwire.adapters.sqlite.group_commit import GroupCommit
from skillwire.adapters.sqlite.open import (
    has_database,
    open_database,
    open_grants,
    open_ledger,
    open_run_blobs,
    open_server_key,
)
from skillwire.adapters.sqlite.skill_versions import SqliteSkillVersions
from skillwire.invocation.code import is_code
from skillwire.invocation.settings import RunSettings
from skillwire.server.invocation.changes import Changes
from skillwire.server.invocation.desk import Desk
from skillwire.server.invocation.granted import Granted
from skillwire.server.invocation.known_calls import KnownCalls
from skillwire.server.invocation.offers import Offers
from skillwire.server.invocation.route import InvocationRoute
from skillwire.server.invocation.service import Executions
from skillwire.server.invocation.webhooks import Webhooks
from skillwire.server.invocation.worker import Worker
from skillwire.server.origins import Origins
from skillwire.server.runs import Runs
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from skillwire.invocation.settings import ExecutionSettings
    from skillwire.model.action import ExecutorKind
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore, Executor
    from skillwire.server.authentication import Authentication


def make_executions(
    settings: ExecutionSettings,
    blobs: BlobStore,
    authentication: Authentication,
    executors: Mapping[ExecutorKind, Callable[[], Executor]],
    *,
    runs: RunSettings | None = None,
    base_url: str = "",
    access_log: bool = True,
    functions: Collection[str] = (),
) -> Executions:
    """Return what accepts, runs and follows executions, on the ledger in the state folder.

    Args:
        settings: the operator's.
        blobs: where the files of skills are.
        authentication: says how to answer who may not use a skill.
        executors: makes each kind of executor.
        runs: the operator's, about runs; nothing is on unless given.
        base_url: of the site; as requests say it when empty.
        access_log: whether each request is logged.
        functions: the digests of the skills whose functions this process registered.
    """
    runs = runs or RunSettings()
    database = open_database()
    changes, dispatcher, offers = Changes(), LocalDispatcher(), Offers(blobs)
    desk = Desk(
        open_ledger(),
        SqliteSkillVersions(database),
        GroupCommit(database),
        settings=settings,
        changes=changes,
        dispatcher=dispatcher,
        clock=moment,
        log_accepted=access_log,
    )

    def may_run(skill: Skill) -> bool:
        if is_code(skill):  # nobody grants what nobody has seen: all of it is allowed, or none
            return bool(runs.run_code)
        return settings.grant_all or open_grants().allows(skill)

    callbacks = AddressPolicy(allow=settings.allow_callbacks)
    webhooks = Webhooks(desk, AsyncDriver(callbacks), open_server_key, queue=settings.queue)
    granted = Granted(may_run)
    route = InvocationRoute(
        desk, offers, granted, webhook_secret=webhooks.secret_of, callbacks=callbacks, base_url=base_url
    )
    run_blobs = open_run_blobs(runs)
    worker = Worker(desk, executors, offers, may_run, dispatcher, functions=functions, sweep_blobs=run_blobs.sweep)
    executions = Executions(
        desk,
        route,
        KnownCalls(desk, granted, base_url),
        origins=Origins(runs.origins, base_url),
        background=(worker, webhooks),
        offers=offers,
        locked=partial(authentication.locked, wish="invoke"),
        has_ledger=has_database,
        base_url=base_url,
        runs=Runs(desk, offers, granted, run_blobs, settings=runs),
    )
    executions.runs.on_accept = executions.start
    return executions


def needed_blobs() -> set[Digest]:
    """Return the digests of the files of skills that executions in the ledger have still to run."""
    if not has_database():
        return set()
    return {file.digest for skill in SqliteSkillVersions(open_database()).needed() for file in skill.files}
