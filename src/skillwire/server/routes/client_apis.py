"""What the APIs of other registries share; their clients use them here as they are.

Each is a protocol of its own over the use cases of :mod:`skillwire.registry.packages`. Refusals keep their status and
code, in the form that the API's clients print; those of a skill name each file, line, rule and fix.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from starlette.types import ASGIApp

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import SkillwireError, UsageError
from skillwire.model.package import Package, PackageName, PackageVersion, read_package_name
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.components import Protocol, RegistryComponents, Services
from skillwire.server.openapi import CONDITION, kept
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.routes.registry_requests import Method, read_query, registry_problem, row, summary_of
from skillwire.server.routing import Answer, Handler, Operation, RequestContext, Route


class ClientApi(Protocol):
    """An API of another registry; ``refusal`` is the media type and the schema of its errors.

    A server that publishes folders alone has no rows of it.
    """

    refusal: ClassVar[Mapping[str, Any]]

    @abstractmethod
    def shape(self, problem: Problem) -> Problem:
        """Return ``problem`` in the form of this API's errors."""

    @abstractmethod
    def package_routes(self, parts: RegistryComponents, services: Services) -> Sequence[Route]:
        """Return the rows of the API of a server that is a registry."""

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the API."""
        return [] if services.packages is None else self.package_routes(services.packages, services)

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error``."""
        return self.shape(registry_problem(error))

    def row(self, path: str, **methods: Method) -> Route:
        """Return a row whose errors all have the form of this API; the caller is authenticated first."""

        def shaped(method: Method) -> Method:
            async def handle(context: RequestContext) -> ASGIApp | None:
                try:
                    await context.authenticate()
                    return await method.handler(context)
                except ProblemError as error:
                    raise ProblemError(self.shape(error.problem)) from None

            return method._replace(handler=handle)

        return row(path, base="", authenticates=False, **{name: shaped(one) for name, one in methods.items()})

    def reads(self, handler: Handler, kind: Any, *parameters: str) -> Method:
        """Return a GET of a document that clients may keep."""
        return self.method(handler, kept(kind), *parameters, CONDITION)

    def changes(self, handler: Handler, kind: Any, body: Any = None, *parameters: str, status: int = 200) -> Method:
        """Return a method that changes something, and answers with a document."""
        answers = {str(status): Answer("The document.", {"application/json": kind}, ("Cache-Control",))}
        refusals = ("409", "413", "415", "422")
        return self.method(handler, answers, *parameters, body=body or {}, refusals=refusals)

    def method(
        self,
        handler: Handler,
        answers: Mapping[str, Answer | str],
        *parameters: str,
        body: Any = None,
        refusals: tuple[str, ...] = (),
    ) -> Method:
        """Return a method with these answers, and the API's refusals."""
        content = body if isinstance(body, dict) else {"application/json": body}
        refused = Answer("It is refused.", self.refusal, ("Cache-Control",))
        known = dict.fromkeys(("400", "401", "403", "404", *refusals), refused)
        return Method(
            handler, Operation(summary_of(handler), {**known, **answers}, parameters, content if body else {})
        )


class ClientRoutes:
    """Answers of such an API; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._store = parts.registry.store


def report(problem: Problem) -> str:
    """Return the message of ``problem`` with its fix; of a refused skill each finding, one on a line."""
    findings: Any = problem.details.get("findings", ())
    lines = [f"{one['place']}: {one['code']}: {one['message']}. {one['fix']}" for one in findings if one["place"]]
    fix = "" if lines else f". {problem.details.get('fix') or CODES[problem.code].fix}"
    return "\n".join((f"{problem.message}{fix}", *lines))


def read_limit(context: RequestContext, usual: int) -> int:
    """Return the ``limit`` of a list, as far as a page of ours goes. Raises UsageError (``QUERY``)."""
    text = read_query(context).get("limit") or str(usual)
    if not (text.isascii() and text.isdigit() and int(text[:9])):
        raise UsageError("QUERY", "limit is a whole number from 1")
    return min(int(text[:9]), int(limits.REGISTRY_PAGE))


def read_after(text: str) -> PackageName:
    """Return the package behind which a page of a list begins. Raises UsageError (``CURSOR``)."""
    after = read_package_name(text) if text else PackageName("", "")
    if after is None:
        raise UsageError("CURSOR", "this is no page of this list")
    return after


async def send_zip(
    parts: RegistryComponents,
    context: RequestContext,
    package: Package,
    version: PackageVersion,
    *,
    folder: str = "",
    is_named: bool = True,
) -> None:
    """Send the files of a version that the caller may download as a .zip, and count it.

    ``is_named`` is whether the request names the version; the latest is another one later.
    """
    found = await parts.downloads.zipped(package, version, folder, stores=True)
    if not is_named and found.cache is CachePolicy.FOREVER:
        found = replace(found, cache=CachePolicy.BRIEF)
    await parts.downloads.send(context, found, version.skill, folder)
    parts.downloads.count(context, package.name, version.version)
