"""``skillwire build``: the skills as files that any static host serves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.options import plural, publisher_option
from skillwire.cli.output import bold, output_options
from skillwire.errors import NotFoundError, SourceLocation, UsageError, ValidationError
from skillwire.model.skill import Finding
from skillwire.model.url import check_base_url

if TYPE_CHECKING:
    from skillwire.adapters.files.static_site import BuildReport
    from skillwire.cli.output import Output


#: The keys of :data:`skillwire.adapters.files.static_site.HOSTS`; listed here so that ``--help`` imports nothing.
HOSTS: Final = ("cloudflare", "github", "netlify", "nginx", "vercel")

_EMPTY: Final = "Check the folder, or give --allow-empty to write a site without skills."
_NONE_PUBLIC: Final = 'Give a skill access = "public" in its skill.toml, or write the empty site with --allow-empty.'


@click.command()
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path())
@click.option(
    "-o",
    "--output",
    "site",
    metavar="SITE",
    default="site",
    show_default=True,
    type=click.Path(),
    help="Folder to write the site to.",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="Address that the site will have, such as https://skills.example.com: begins the URLs in its indexes, which "
    "are relative without it. Needed for --bridge ai-catalog.",
)
@publisher_option
@click.option(
    "--host-files",
    "hosts",
    multiple=True,
    type=click.Choice(["all", "none", *HOSTS]),
    default=["all"],
    help="Write header files for this host; repeatable.  [default: all]",
)
@click.option(
    "--bridge",
    "bridges",
    multiple=True,
    type=click.Choice(["ai-catalog", "marketplace"]),
    help="Also write the index in this format; repeatable.",
)
@click.option("--pages/--no-pages", default=True, help="Write pages for people.  [default: --pages]")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Server configuration whose [site] the pages show.",
)
@click.option("--skip-broken", is_flag=True, help="Publish the other skills when some cannot be published.")
@click.option(
    "--force", is_flag=True, help="Build into a folder that contains other files, and overwrite conflicting ones."
)
@click.option("--no-cache", is_flag=True, help="Read every skill, including unchanged ones.")
@click.option("--allow-empty", is_flag=True, help="Write a site even without skills.")
@click.option("--dry-run", is_flag=True, help="Load everything, and write nothing.")
@output_options
def command(
    *,
    output: Output,
    folders: tuple[str, ...],
    site: str,
    hosts: tuple[str, ...],
    bridges: tuple[str, ...],
    **options: Any,
) -> None:
    """Write the skills in each FOLDER, by default the current one, as a static site into SITE.

    The same skills produce the same bytes on every machine. Skills unchanged since the last build are not read again,
    and the build removes only files that an earlier build wrote.
    """
    from skillwire.adapters.files import loading, static_site  # noqa: PLC0415  # takes a while
    from skillwire.server import app, configuration  # noqa: PLC0415  # same

    folders = folders or (".",)
    base_url, publisher = check_base_url(options["base_url"]), options["publisher"]
    if "none" in hosts and len(hosts) > 1:
        raise UsageError("USAGE", "--host-files none excludes every other host")
    site_options = static_site.SiteOptions(
        roots=tuple(loading.published_roots(folders)),
        site=Path(os.path.abspath(site)),  # noqa: PTH100  # without its dots, and links kept
        base_url=base_url,
        publisher=publisher,
        hosts=tuple(host for host in HOSTS if host in hosts or "all" in hosts),
        force=options["force"],
        skip_broken=options["skip_broken"],
        allow_empty=options["allow_empty"],
        use_record=not options["no_cache"],
        dry_run=options["dry_run"],
        listings=app.site_files(bridges, publisher, base_url),
    )
    config, absent = options["config"], list[str]()
    if options["pages"]:
        from skillwire.web import assets, static_pages  # noqa: PLC0415  # takes a while

        brand = configuration.load_configuration(Path(config)).site if config else assets.PLAIN
        site_options = static_pages.with_pages(site_options, brand, absent.extend)
    build = static_site.SiteBuild(site_options)
    if not build.folders and not options["allow_empty"]:
        # Most often a mistyped folder, and a site without skills would take the place of a good one.
        place = SourceLocation(folders[0])
        raise NotFoundError("SKILL_NOT_FOUND", "there is no SKILL.md to publish", place=place, fix=_EMPTY)
    with output.progress.during("building", len(build.folders)) as progress:
        report = build.run(progress.advance)
    for finding in sorted(report.findings, key=lambda row: row.level != "error"):
        output.finding(finding)  # errors stand first, where a thousand warnings do not hide them
    for name in absent:
        message, fix = f"featured names {name}, which is not published", "Correct the name, or publish the skill."
        output.finding(Finding("SERVER_CONFIGURATION", "warning", message, SourceLocation(config), fix))
    _check(report, skip_broken=options["skip_broken"], allow_empty=options["allow_empty"])
    _print_result(output, site, report)


def _check(report: BuildReport, *, skip_broken: bool, allow_empty: bool) -> None:
    """Raise an error when nothing was, or would be, written."""
    details = {"findings": list(report.findings)}
    number = plural(report.errors, "error")
    if report.errors and not skip_broken:
        raise ValidationError("SKILLS_BROKEN", f"{number}; nothing was written", details=details)
    if report.public or allow_empty:
        return
    if report.errors:
        message, fix = f"{number}, and no skill is left to publish; nothing was written", "Fix the reported errors."
        raise ValidationError("SKILLS_BROKEN", message, fix=fix, details=details)
    message = "none of the skills is public; nothing was written"
    raise NotFoundError("SKILL_NOT_FOUND", message, fix=_NONE_PUBLIC, details=details)


def _print_result(output: Output, site: str, report: BuildReport) -> None:
    number = plural(report.public, "skill")
    kept_back = report.skills - report.public
    left_out = f"; {kept_back} not published: not public" if kept_back else ""
    read = f"{report.loaded} read, {report.unchanged} unchanged"
    if report.changes is None:
        output.line("would build ", bold(number), f" into {site} ({read}){left_out}; nothing was written")
    else:
        written, removed = report.changes
        files = f"{written} files written, {removed} removed"
        output.line("built ", bold(number), f" into {site} ({read}; {files}){left_out}")
    output.document({
        "schema": "skillwire/build/1", "site": site, "skills": report.public, "not_public": kept_back,
        "read": report.loaded, "unchanged": report.unchanged, "changes": report.changes,
    })  # fmt: skip
