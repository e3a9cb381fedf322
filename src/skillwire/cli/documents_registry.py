"""JSON documents that commands print with ``--json`` about a registry. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from skillwire.cli.documents import DryRun
from skillwire.client.registry import PublishedPackage
from skillwire.errors import Diagnostics


class NotPublishedObject(TypedDict):
    folder: Annotated[str, "Folder of the skill"]
    error: Annotated[Diagnostics, "Why it was not published"]


class PublishDocument(DryRun):
    schema: Annotated[Literal["skillwire/publish/1"], "Published skills"]
    published: Annotated[list[PublishedPackage], "The skills that the registry has now"]
    failed: Annotated[list[NotPublishedObject], "The skills that it has not"]


class PackageStateDocument(TypedDict):
    schema: Annotated[Literal["skillwire/package-state/1"], "A changed state of a package or a version"]
    reference: Annotated[str, "NAMESPACE/NAME, or with @VERSION"]
    status: Annotated[str, "Its status now"]
    reason: Annotated[str | None, "Why; null without a reason"]
    successor: Annotated[str | None, "Package to use instead; null without one"]


class RegistryDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry/1"], "Answer of a registry, or rows of a list"]
    answer: Annotated[dict[str, Any], "The answer as docs/reference/registry-api.md describes it"]


class RegistryInitDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry-init/1"], "The first operator of a registry"]
    account: Annotated[str, "Name of the account"]
    secret: Annotated[str, "Its token, printed only once"]


class RegistryExportDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry-export/1"], "An export, import or copy of a registry"]
    folder: Annotated[str, "Folder of the export"]
    rows: Annotated[dict[str, int], "Rows by table"]
