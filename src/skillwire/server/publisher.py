"""Publishing from Python: typed functions as skills, beside folders or without any.

A decorated function is described at once, so that an error points to its definition. It stays an ordinary function. See
docs/how-to/publish-a-function.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, overload

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.folder.functions import FunctionFacts, TypedFunction, function_files, read_function, refusal
from skillwire.folder.publish import RefusedFolder, check_publisher, prepare_files
from skillwire.model.access import Access
from skillwire.model.skill import is_skill_name
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.protocols.skill_sharing.judge import lint_sharing
from skillwire.server.app import Application, create_app, lan_settings
from skillwire.server.components import PublishedFunction
from skillwire.server.log import configure_logging
from skillwire.server.run import listen, listener_url, run
from skillwire.trust.hidden_text import neutralise

F = TypeVar("F", bound="Callable[..., Any]")

_SHORTEST: Final = 0.001
_LONGEST: Final = 24 * 3600.0
_MOST_ATTEMPTS: Final = 20


class Publisher:
    """Publishes functions, and folders of skills, over every protocol.

    Args:
        name: the provider's part of identifiers, such as ``example-corp``.

    Raises:
        UsageError: ``PUBLISHER_FORM``.

    Example::

        publisher = skillwire.Publisher("example-corp")

        @publisher.skill(access="public")
        def forecast(city: str, days: int = 3) -> list[str]:
            '''Say what the weather will be. Use when a person asks about the weather of the next days.'''
            ...

        publisher.serve(port=8000)
    """

    def __init__(self, name: str = "local") -> None:
        self.name = check_publisher(name)
        self._functions: dict[str, PublishedFunction] = {}

    @property
    def functions(self) -> Sequence[PublishedFunction]:
        """The functions that are registered, in order."""
        return tuple(self._functions.values())

    @overload
    def skill(self, function: F, /) -> F: ...

    @overload
    def skill(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        version: str = "0.1.0",
        access: str = "public",
        capability_type: str | None = None,
        tags: Iterable[str] = (),
        scenes: Iterable[str] = (),
        capabilities: Iterable[str] = (),
        timeout: float | None = None,
        retry: int = 1,
        backoff: float = 1.0,
        idempotent: bool = False,
        health: Callable[[], object] | None = None,
    ) -> Callable[[F], F]: ...

    def skill(self, function: F | None = None, /, **facts: Any) -> F | Callable[[F], F]:
        """Register a function as a skill.

        Args:
            function: typed, with a docstring; async or not. Parameters of the type ``CallContext`` are no inputs.
            **facts: any of the following.
            name: of the skill; the function's own, with hyphens for underscores, unless given.
            description: what it does and when to use it; the docstring's first paragraph unless given.
            version: of Semantic Versioning.
            access: ``public``, ``restricted`` or ``private``.
            capability_type: in Skill Sharing; ``api`` unless given.
            tags, scenes, capabilities: what it is found by.
            timeout: seconds that a call may take; what the server allows unless given.
            retry: how many attempts may be made in all, when one fails for a reason that may pass.
            backoff: seconds before the second attempt.
            idempotent: whether it may be called again when a server was lost in the middle.
            health: is asked how the skill is, every few seconds, where it is announced on a local network. It returns
                whether it is healthy, or ``HEALTHY``, ``DEGRADED``, ``UNHEALTHY`` or ``MAINTENANCE``; what raises is
                UNHEALTHY, and what takes more than two seconds DEGRADED. Async or not.

        Raises:
            UsageError: ``FUNCTION_FORM`` when the function cannot be described, or something given is malformed.
        """

        def register(function: F) -> F:
            typed, health = read_function(function), facts.get("health")
            if health is not None and not callable(health):
                raise refusal(function, "health is a function without parameters")
            described = _facts(function, typed, **{name: given for name, given in facts.items() if name != "health"})
            try:
                files = function_files(typed, described)
            except ValueError as error:
                raise refusal(function, str(error)) from error
            prepared = prepare_files(described.name, files, self.name, judges=(lint_sharing,))
            if isinstance(prepared, RefusedFolder):
                first = next(finding for finding in prepared.findings if finding.level == "error")
                raise refusal(function, f"{first.code}: {first.message}")
            if described.name in self._functions:
                raise refusal(function, f"another function has the name {described.name}")
            self._functions[described.name] = PublishedFunction(prepared, typed, health)
            return function

        return register if function is None else register(function)

    def app(self, folders: Iterable[str | os.PathLike[str]] = (), **options: Any) -> Application:
        """Return the ASGI application of the registered functions and ``folders``; options as for ``create_app``."""
        return create_app(folders, publisher=self.name, functions=self.functions, **options)

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        folders: Iterable[str | os.PathLike[str]] = (),
        log_format: str = "human",
        on_ready: Callable[[str], None] = lambda _: None,
        lan: bool | LanSettings = False,
        **options: Any,
    ) -> None:
        """Serve until SIGINT or SIGTERM, as ``skillwire serve`` does.

        Args:
            host: where to listen.
            port: 0 takes a free one.
            folders: folders of skills, or skills.
            log_format: ``human`` or ``json``.
            on_ready: called once with the address, when everything is published.
            lan: whether the skills that everyone may see are announced on the local network, with the settings that
                ``serve --lan`` reads, or how; give a ``host`` that others reach, such as ``0.0.0.0``.
            **options: as for :meth:`app`.

        Raises:
            UsageError: ``HOST_UNUSABLE``.
            ConflictError: ``PORT_IN_USE``.
        """
        configure_logging(log_format, lambda *_: None)
        settings = lan_settings(options.get("configuration")) if lan is True else lan or None
        application = self.app(folders, lan=settings, **options)

        def ready(_: object) -> None:
            on_ready(address)
            if sys.stdout is not None:
                with suppress(OSError, ValueError):  # the server runs on when nothing reads its output
                    sys.stdout.flush()  # else a pipe or a log gets what `print` wrote when the server ends

        with listen(host, port) as listener:
            address = listener_url(listener)
            run(application, listener, on_ready=ready)


def _facts(
    function: Callable[..., Any],
    typed: TypedFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    access: str = "public",
    tags: Iterable[str] = (),
    scenes: Iterable[str] = (),
    capabilities: Iterable[str] = (),
    **rest: Any,
) -> FunctionFacts:
    """Return what is said of a function beyond its hints, checked as far as the rules for folders do not."""
    name = name or getattr(function, "__name__", "").strip("_").replace("_", "-").lower()
    if not is_skill_name(name):
        raise refusal(function, f"{name!r} cannot name a skill; give name=")
    text = " ".join((description or typed.summary).split())
    if not text:
        raise refusal(function, "it has no docstring; say what it does and when to use it")
    if neutralise(text) != text:
        raise refusal(function, "its description has hidden characters")
    if access not in set(Access):
        raise refusal(function, f"access is one of {', '.join(Access)}")
    facts = FunctionFacts(
        name=name,
        description=text,
        access=Access(access),
        tags=_texts("tags", tags),
        scenes=_texts("scenes", scenes),
        capabilities=_texts("capabilities", capabilities),
        **rest,
    )
    if len(text) > limits.DESCRIPTION_LENGTH:
        raise refusal(function, f"its description has more than {int(limits.DESCRIPTION_LENGTH)} characters")
    if facts.timeout is not None and not _SHORTEST <= facts.timeout <= _LONGEST:
        raise refusal(function, "timeout is 0.001 to 86400 seconds")
    if not (1 <= facts.retry <= _MOST_ATTEMPTS and _SHORTEST <= facts.backoff <= _LONGEST):
        raise refusal(function, f"retry is 1 to {_MOST_ATTEMPTS} attempts, backoff 0.001 to 86400 seconds")
    return facts


def _texts(what: str, texts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise UsageError("FUNCTION_FORM", f"{what} is a list of texts")
    return tuple(texts)
