"""The console of executions: over a fake desk as an ASGI application, and over a ledger as a server for browsers."""

import asyncio
import contextlib
import secrets
import socket
import threading
import time

import uvicorn
from tests.support.eventually import PATIENCE, eventually
from tests.support.executions import claim_of, make_execution
from tests.support.fake_desk import FakeDesk
from tests.support.opened import BlockingLedger, open_tokens

from skillwire.adapters.clock import moment
from skillwire.executions.tasks import person_worker
from skillwire.model.execution import FINAL, ExecutionQuery, ExecutionStatus, Quota
from skillwire.server import app as app_module
from skillwire.server import create_app
from skillwire.server.app import make_routes
from skillwire.server.fastpath import Connection
from skillwire.server.routes.console import ExecutionsConsole

LONG = 3600.0


class ConsoleSite:
    """The application that publishes ``folders``, with a console over a fake desk before it."""

    def __init__(self, folders, blobs, desk=None, **options):
        self.application = create_app(folders, blobs=blobs, access_log=False, **options)
        self.desk = desk or FakeDesk()
        services = self.application.services
        self.console = ExecutionsConsole(
            self.desk,
            services.authentication,
            base_url=options.get("base_url") or "",
            has_skill=lambda skill: skill in services.catalog.current.catalog.skills,  # type: ignore[union-attr]  # loaded by then
        )

    @property
    def console(self):
        return self._console

    @console.setter
    def console(self, console):
        self._console = console
        self.application.services.console = console
        self.application.router.routes = [*make_routes(self.application.services)]

    async def __call__(self, scope, receive, send):
        await self.application(scope, receive, send)


class ConsoleServer:
    """``folders`` and executions on a free port of loopback, served by a thread; a context manager that ends it.

    Nothing runs but what a test lets run: the methods change the ledger as a worker does, and tell of it.
    ``options`` are those of ``app``.
    """

    def __init__(self, folders, blobs, **options):
        makers, app_module.make_executors = app_module.make_executors, lambda *_: {}
        try:
            self.application = create_app(folders, blobs=blobs, access_log=False, **options)
        finally:
            app_module.make_executors = makers
        self.desk = self.application.services.executions.service
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            self.application, http=Connection, log_config=None, lifespan="on", ws="none", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._server.serve(sockets=[self._socket]))

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self._server.started and self.application.catalog.current is not None)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self.application.close_streams)
        self._server.should_exit = True
        self._thread.join(PATIENCE)

    def accept(self, age=0.0, **fields):
        """Keep an execution that was accepted ``age`` seconds ago; return its ID."""
        fields = {"timeout": LONG, "execution_id": f"exec-{secrets.token_hex(16)}", **fields}
        made = make_execution(time.time() - age, **fields)
        return self._change(lambda ledger: ledger.accept(made)).execution.execution_id

    def begin(self, worker="worker-1", executor="python", age=0.0):
        """Let a worker take up what is next for its executor; return the claim."""
        quota = Quota(executors=(executor,), lease=LONG, per_caller=1000, per_skill=1000)
        (execution,) = self._change(lambda ledger: ledger.claim(worker, _moment(age), quota))
        return claim_of(execution)

    def complete(self, claim, output=b'{"rows":3}', age=0.0):
        assert self._change(lambda ledger: ledger.complete(claim, output, _moment(age)))

    def fail(self, claim, failure, age=0.0):
        assert self._change(lambda ledger: ledger.fail(claim, failure, _moment(age)))

    def end_tasks(self):
        open_ones = ExecutionQuery(frozenset(ExecutionStatus) - FINAL, executor="human", limit=200)
        for execution in self._change(lambda ledger: ledger.search(open_ones)).executions:
            self._change(lambda ledger, name=execution.execution_id: ledger.cancel(name, "the test", _moment(0.0)))

    def claim_task(self, execution_id, person, *, has_key=False):
        """Give a task to a person at the command line, or to the one with the key of this name."""
        ids = [token.token_id for token in open_tokens().all() if token.name == person] if has_key else [""]
        assert self._change(
            lambda ledger: ledger.claim_task(execution_id, person_worker(person, ids[-1]), _moment(0.0))
        )

    def find(self, execution_id):
        return BlockingLedger(self.desk.ledger).find(execution_id)

    def _change(self, change):
        result = change(BlockingLedger(self.desk.ledger))
        self._loop.call_soon_threadsafe(self.desk.changes.notify_all)
        return result


def _moment(age):
    now = moment()
    return now._replace(wall=now.wall - age)


def make_key(name, *scopes, **more):
    """Make an API key; return its secret."""
    return open_tokens().issue(name, scopes=scopes, **more).secret
