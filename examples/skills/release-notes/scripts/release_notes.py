#!/usr/bin/env python3
"""Collects the commits between two revisions and sorts them for release notes.

Conventional Commits decide the section where commits follow them; the rest is listed as it is. A commit and
its revert in one range cancel each other out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass

FIELD, RECORD = "\x1f", "\x1e"  # git writes them only where the format says so
SECTIONS = {"breaking": "Breaking changes", "feat": "New", "fix": "Fixed", "perf": "Faster", "other": "Other changes"}
INTERNAL = {"build", "chore", "ci", "docs", "refactor", "style", "test", "tests"}
CONVENTIONAL = re.compile(r"(?P<kind>[a-z]+)(?:\((?P<scope>[^)]*)\))?(?P<bang>!)?:\s+(?P<text>.+)", re.IGNORECASE)
ALIASES = {"feature": "feat", "bugfix": "fix", "hotfix": "fix", "performance": "perf"}
BREAKING = re.compile(r"^BREAKING[ -]CHANGE:\s*(.+?)(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,40})")
VERSION = re.compile(r"(?P<prefix>\D*)(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)")
ISSUE = re.compile(r"(?<![\w/&])#(\d+)\b")


class Refused(Exception):
    """The notes cannot be made; the message says why and what to try."""


@dataclass(frozen=True)
class Commit:
    """A commit with what its message says about it."""

    hash: str
    author: str
    section: str
    scope: str | None
    text: str
    body: str
    breaking: str | None
    internal: bool


def git(repository: str, *words: str) -> str:
    """Return what git prints."""
    try:
        done = subprocess.run(
            ["git", "-C", repository, *words], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise Refused("git is not installed") from error
    if done.returncode:
        raise Refused(done.stderr.strip().removeprefix("fatal: ") or f"git {words[0]} failed")
    return done.stdout


def resolved(repository: str, revision: str) -> str:
    """Return the hash of a revision."""
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except Refused as error:
        git(repository, "rev-parse", "--git-dir")  # not a repository at all says so itself
        raise Refused(f"unknown revision {revision!r}; 'git tag' lists the tags") from error


def last_tag(repository: str, revision: str) -> str | None:
    """Return the nearest tag before ``revision``, not counting tags of ``revision`` itself."""
    try:
        return git(repository, "describe", "--tags", "--abbrev=0", f"{revision}^").strip()
    except Refused:
        return None  # no tag, or no earlier commit: the whole history is meant


def read_commit(record: str) -> Commit:
    """Read one record of the log."""
    sha, author, subject, body = record.strip("\n").split(FIELD)
    body = body.strip()
    match = CONVENTIONAL.fullmatch(subject)
    kind = match["kind"].lower() if match else "other"
    kind = ALIASES.get(kind, kind)
    known = match is not None and (kind in SECTIONS or kind in INTERNAL)
    footer = BREAKING.search(body)
    text = match["text"] if match and known else subject
    breaking = None
    if footer or (match and match["bang"]):
        breaking = " ".join(footer.group(1).split()) if footer else text
    section = "breaking" if breaking else kind if kind in SECTIONS and known else "other"
    scope = match["scope"] if match and known else None
    return Commit(
        sha, author, section, scope, text, body, breaking, internal=known and kind in INTERNAL and not breaking
    )


def commits(repository: str, start: str | None, end: str) -> list[Commit]:
    """Return the commits of the range, newest first, without merges and without what was reverted in it."""
    log = git(
        repository,
        "-c",
        "log.showSignature=false",  # it would stand between the records
        "log",
        "--no-merges",
        f"--format=%H{FIELD}%aN{FIELD}%s{FIELD}%b{RECORD}",
        f"{start}..{end}" if start else end,
    )
    found = [read_commit(record) for record in log.split(RECORD) if record.strip()]
    gone: set[str] = set()
    for commit in found:  # newest first, so a revert of a revert is seen before the revert
        if commit.hash in gone:
            continue
        match = REVERTS.search(commit.body)
        target = match and next((other.hash for other in found if other.hash.startswith(match[1])), None)
        if target:
            gone |= {commit.hash, target}
    return [commit for commit in found if commit.hash not in gone]


def next_version(tag: str | None, found: list[Commit]) -> str | None:
    """Return the SemVer version that the commits call for, or None when the tag is no version."""
    match = VERSION.fullmatch(tag or "")
    if not match:
        return None
    major, minor, patch = (int(match[part]) for part in ("major", "minor", "patch"))
    sections = {commit.section for commit in found}
    if "breaking" in sections and major:
        numbers = (major + 1, 0, 0)
    elif sections & {"breaking", "feat"}:
        numbers = (major, minor + 1, 0)
    else:
        numbers = (major, minor, patch + 1)
    return match["prefix"] + ".".join(map(str, numbers))


def markdown(data: dict, *, title: str, url: str | None) -> str:
    """Return the notes as Markdown."""

    def linked(text: str) -> str:
        return ISSUE.sub(lambda issue: f"[#{issue[1]}]({url.rstrip('/')}/issues/{issue[1]})", text) if url else text

    lines = [f"## {title}", ""]
    for section, heading in SECTIONS.items():
        entries = [commit for commit in data["commits"] if commit["section"] == section]
        if not entries:
            continue
        lines += [f"### {heading}", ""]
        for commit in entries:
            scope = f"{commit['scope']}: " if commit["scope"] else ""
            lines.append(f"- {scope}{linked(commit['text'])} ({commit['hash'][:9]})")
            if commit["breaking"] and commit["breaking"] != commit["text"]:
                lines.append(f"  {linked(commit['breaking'])}")
        lines.append("")
    if data["left_out"]:
        lines += [f"Left out: {data['left_out']} internal commits (--all lists them).", ""]
    lines.append(f"Authors: {', '.join(data['authors'])}.")
    return "\n".join(lines)


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="release_notes.py", description="Collect release notes from git history.")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: the current folder)")
    parser.add_argument("--from", dest="start", metavar="REV", help="after this revision (default: the last tag)")
    parser.add_argument("--to", dest="end", default="HEAD", metavar="REV", help="up to this revision (default: HEAD)")
    parser.add_argument("--title", metavar="TEXT", help="heading (default: the suggested version)")
    parser.add_argument("--repo-url", metavar="URL", help="link #123 to URL/issues/123")
    parser.add_argument("--all", action="store_true", help="also chore, ci, test, docs, style, build and refactor")
    parser.add_argument("--json", action="store_true", help="print JSON, commit bodies included")
    return parser


def collect(options: argparse.Namespace) -> dict:
    """Return the notes as JSON values."""
    end = resolved(options.repo, options.end)
    tag = options.start or last_tag(options.repo, end)
    start = resolved(options.repo, tag) if tag else None
    found = commits(options.repo, start, end)
    if not found:
        raise Refused(f"no commits between {tag or 'the first commit'} and {options.end}")
    kept = [commit for commit in found if options.all or not commit.internal]
    return {
        "from": tag,
        "to": options.end,
        "suggested_version": next_version(tag, found),
        "left_out": len(found) - len(kept),
        "authors": sorted({commit.author for commit in found}),
        "commits": [asdict(commit) for commit in kept],
    }


def main() -> int:
    """Run the command line; return the exit code."""
    options = arguments().parse_args()
    try:
        data = collect(options)
    except Refused as error:
        print(f"release_notes.py: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        title = options.title or data["suggested_version"] or f"Changes up to {options.end}"
        print(markdown(data, title=title, url=options.repo_url))
    return 0


if __name__ == "__main__":
    sys.exit(main())
