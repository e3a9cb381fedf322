"""The synchronous client, which the command line uses too: the standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from skillwire.client.remote import RemoteSkill
from skillwire.client.workplace import Workplace
from skillwire.resolver.flow import Fetch, FetchAll

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from skillwire.adapters.http.sync import SyncDriver
    from skillwire.resolver.flow import Flow, Work
    from skillwire.resolver.install import Report
    from skillwire.testing.publisher import SimulatedPublisher

T = TypeVar("T")


class Client(Workplace):
    """The synchronous client. A context manager; its connections are kept between calls."""

    #: Drives the conversations; opened when the first one is held. Tests set a simulated publisher.
    driver: SyncDriver | SimulatedPublisher | None = None

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None

    def index(self, origin: str) -> list[RemoteSkill]:
        """Return the skills of an origin, or of whatever index ``origin`` leads to."""
        return [RemoteSkill(self, skill) for skill in self.run(self.locate(origin))]

    def skill(self, reference: str) -> RemoteSkill:
        """Return the one skill that ``reference`` means."""
        return RemoteSkill(self, self.run(self.locate_one(reference)))

    def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
    ) -> Report:
        """Install skills: verified, all or nothing, recorded in ``skills.lock``.

        Args:
            references: as a user would type them.
            agents: keys of :data:`skillwire.resolver.agents.AGENTS`; by default the universal folder and the
                agents in use.
            consent: agree to origins that nobody has agreed to yet.
            overwrite: replace what stands in the way and is not ours.
            copy: copies instead of links in the folders of several agents.
        """
        plan = self.run(self.plan(references, agents, copy=copy))
        return self.run(self.apply(plan, consent=consent, overwrite=overwrite))

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow: each step in place."""
        try:
            step = next(flow)
            while True:
                try:
                    result = self._do(step)
                except BaseException as error:  # noqa: BLE001  # an interruption, too, is for the flow to clean up after
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any

    def _do(self, step: Fetch | FetchAll | Work) -> Any:
        if isinstance(step, Fetch):
            return self._http().run(step.exchange)
        if isinstance(step, FetchAll):
            return self._http().run_all(step.exchanges, on_done=step.on_done)
        return step.call()

    def _http(self) -> SyncDriver | SimulatedPublisher:
        if self.driver is None:
            from skillwire.adapters.http.sync import SyncDriver  # noqa: PLC0415  # not every command connects

            self.driver = SyncDriver(self.addresses)
        self.driver.policy = self.addresses
        return self.driver
