#!/usr/bin/env python3
"""Makes an HTML contact sheet of a folder of images and reports what is wrong with them.

Only headers are read for sizes; a whole file is read for its digest when another file has the same length,
and to embed it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import os
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

UNREADABLE = Path(__file__).resolve().parent.parent / "assets" / "unreadable.png"
EXTENSIONS = {
    ".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp", ".bmp": "bmp",
}  # fmt: skip
LARGE_PIXELS = 40_000_000
LARGE_BYTES = 20 * 1024 * 1024
EMBED_BYTES = 50 * 1024 * 1024
HEADER_BYTES = 512 * 1024  # a JPEG's frame header comes after its metadata, which may hold a preview


class Refused(Exception):
    """The sheet cannot be made; the message says why."""


@dataclass
class Image:
    """One file of the folder. ``kind`` is None when it is no image that is known here."""

    path: str
    bytes: int
    modified: float
    kind: str | None = None
    width: int | None = None
    height: int | None = None
    problems: list[str] = field(default_factory=list)


def measure(header: bytes) -> tuple[str, int, int] | None:
    """Return kind, width and height in pixels from the first bytes of an image, or None."""
    if header.startswith(b"\x89PNG\r\n\x1a\n") and header[12:16] == b"IHDR" and len(header) >= 24:
        return "png", int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
    if header[:6] in (b"GIF87a", b"GIF89a") and len(header) >= 10:
        return "gif", int.from_bytes(header[6:8], "little"), int.from_bytes(header[8:10], "little")
    if header.startswith(b"BM") and len(header) >= 26:
        width = int.from_bytes(header[18:22], "little", signed=True)
        height = int.from_bytes(header[22:26], "little", signed=True)
        return "bmp", abs(width), abs(height)  # a negative height means rows from the top
    if header[:4] == b"RIFF" and header[8:12] == b"WEBP":
        return measure_webp(header)
    if header.startswith(b"\xff\xd8"):
        return measure_jpeg(header)
    return None


def measure_webp(header: bytes) -> tuple[str, int, int] | None:
    """Read the size of a WebP image in any of its three forms."""
    form = header[12:16]
    if form == b"VP8X" and len(header) >= 30:
        return "webp", int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
    if form == b"VP8L" and len(header) >= 25 and header[20] == 0x2F:
        bits = int.from_bytes(header[21:25], "little")
        return "webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(header) >= 30 and header[23:26] == b"\x9d\x01\x2a":
        width, height = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        return "webp", width & 0x3FFF, height & 0x3FFF
    return None


def measure_jpeg(header: bytes) -> tuple[str, int, int] | None:
    """Walk the segments of a JPEG to its frame header."""
    at = 2
    while at + 9 <= len(header) and header[at] == 0xFF:
        marker = header[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return "jpeg", int.from_bytes(header[at + 7 : at + 9]), int.from_bytes(header[at + 5 : at + 7])
        else:
            at += 2 + int.from_bytes(header[at + 2 : at + 4])
    return None


def looked_at(folder: Path, path: Path) -> Image:
    """Read one file's header and note what is wrong with it."""
    status = path.stat()
    image = Image(path.relative_to(folder).as_posix(), status.st_size, status.st_mtime)
    if status.st_size == 0:
        image.problems.append("empty")
        return image
    with path.open("rb") as stream:
        measured = measure(stream.read(HEADER_BYTES))
    if measured is None or 0 in measured[1:]:
        image.problems.append("unreadable")
        return image
    image.kind, image.width, image.height = measured
    if EXTENSIONS[path.suffix.lower()] != image.kind:
        image.problems.append(f"wrong-extension: is {image.kind}")
    if image.width * image.height > LARGE_PIXELS or image.bytes > LARGE_BYTES:
        image.problems.append("large")
    return image


def mark_duplicates(folder: Path, images: list[Image]) -> None:
    """Note which images are byte for byte an earlier one."""
    by_size = defaultdict(list)
    for image in images:
        if image.bytes:
            by_size[image.bytes].append(image)
    for same_size in by_size.values():
        first: dict[bytes, str] = {}
        for image in same_size if len(same_size) > 1 else ():
            with (folder / image.path).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").digest()
            if digest in first:
                image.problems.append(f"duplicate: of {first[digest]}")
            first.setdefault(digest, image.path)


def images_of(folder: Path, *, recursive: bool, order: str) -> list[Image]:
    """Return the images of a folder, by their extension; links are not followed."""
    if not folder.is_dir():
        raise Refused(f"no such folder: {folder}")
    found = folder.rglob("*") if recursive else folder.iterdir()
    paths = sorted(
        path for path in found if path.suffix.lower() in EXTENSIONS and path.is_file() and not path.is_symlink()
    )
    if not paths:
        where = "" if recursive else " (--recursive looks into folders)"
        raise Refused(f"no PNG, JPEG, GIF, WebP or BMP images in {folder}{where}")
    images = [looked_at(folder, path) for path in paths]
    mark_duplicates(folder, images)
    keys = {"name": lambda image: image.path, "date": lambda image: image.modified, "size": lambda image: -image.bytes}
    return sorted(images, key=keys[order])


def human(size: int) -> str:
    """Write a size in bytes for people."""
    return f"{size} B" if size < 1024 else f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def source_of(image: Image, folder: Path, page: Path, *, embed: bool) -> str:
    """Return the address of an image for the page."""
    if image.kind is None:
        return "data:image/png;base64," + base64.b64encode(UNREADABLE.read_bytes()).decode()
    file = folder / image.path
    if embed:
        return f"data:image/{image.kind};base64," + base64.b64encode(file.read_bytes()).decode()
    return quote(Path(os.path.relpath(file.resolve(), page.resolve().parent)).as_posix())


def render(images: list[Image], folder: Path, page: Path, options: argparse.Namespace) -> str:
    """Return the page."""
    figures = []
    for number, image in enumerate(images, 1):
        size = f"{image.width} x {image.height}" if image.kind else "unknown size"
        problems = "".join(f"<br><b>{html.escape(problem)}</b>" for problem in image.problems)
        name = html.escape(image.path)
        source = html.escape(source_of(image, folder, page, embed=options.embed))
        figures.append(
            f'<figure><img loading="lazy" src="{source}" alt="{name}">'
            f"<figcaption>{number}. {name}<br>{size}, {human(image.bytes)}{problems}</figcaption></figure>"
        )
    title = html.escape(options.title or f"Images in {folder.resolve().name}")
    style = (
        "body{font:14px/1.4 sans-serif;margin:2em;background:#fff;color:#222}"
        f"main{{display:grid;grid-template-columns:repeat(auto-fill,minmax({options.size}px,1fr));gap:1.5em}}"
        f"figure{{margin:0}}img{{max-width:100%;height:{options.size}px;object-fit:contain;background:#eee}}"
        "figcaption{overflow-wrap:anywhere}b{color:#a00}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>\n'
        f"<h1>{title}</h1><p>{len(images)} images</p>\n<main>\n" + "\n".join(figures) + "\n</main></html>\n"
    )


def listing(images: list[Image]) -> str:
    """Return the images as lines of text."""
    lines = []
    for image in images:
        size = f"{image.kind} {image.width}x{image.height}" if image.kind else "?"
        problems = f"  !! {'; '.join(image.problems)}" if image.problems else ""
        lines.append(f"{image.path}  {size}  {human(image.bytes)}{problems}")
    wrong = sum(bool(image.problems) for image in images)
    return "\n".join([*lines, f"{len(images)} images, {wrong} with problems"])


def write(page: Path, text: str, *, force: bool) -> None:
    """Write the page, never over an existing file unless told."""
    try:
        with page.open("w" if force else "x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise Refused(f"{page} exists; --force replaces it") from error


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="contact_sheet.py", description="Make an HTML contact sheet of a folder.")
    parser.add_argument("folder", type=Path, help="the folder of images")
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE", help="write the page here")
    parser.add_argument("--list", action="store_true", help="only list the images and their problems")
    parser.add_argument("--json", action="store_true", help="with --list: print JSON")
    parser.add_argument("--recursive", action="store_true", help="look into folders")
    parser.add_argument("--embed", action="store_true", help="put the images into the page (at most 50 MiB)")
    parser.add_argument("--size", type=int, default=220, metavar="N", help="thumbnail width in pixels (default 220)")
    parser.add_argument("--sort", choices=("name", "date", "size"), default="name", help="default: name")
    parser.add_argument("--title", help="heading of the page")
    parser.add_argument("--force", action="store_true", help="replace an existing page")
    return parser


def run(options: argparse.Namespace) -> str:
    """Do what was asked; return what to print."""
    images = images_of(options.folder, recursive=options.recursive, order=options.sort)
    if options.list:
        return json.dumps([asdict(image) for image in images], indent=2) if options.json else listing(images)
    total = sum(image.bytes for image in images)
    if options.embed and total > EMBED_BYTES:
        raise Refused(f"{human(total)} are too much to embed (at most {human(EMBED_BYTES)}); leave out --embed")
    write(options.output, render(images, options.folder, options.output, options), force=options.force)
    wrong = sum(bool(image.problems) for image in images)
    return f"{options.output}: {len(images)} images, {wrong} with problems"


def main() -> int:
    """Run the command line; return the exit code."""
    parser = arguments()
    options = parser.parse_args()
    if not options.list and options.output is None:
        parser.error("say -o PAGE to write a page, or --list to look only")
    if not 40 <= options.size <= 2000:
        parser.error("--size needs a number from 40 to 2000")
    try:
        print(run(options))
    except Refused as error:
        print(f"contact_sheet.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"contact_sheet.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except UnicodeEncodeError as error:
        print(f"contact_sheet.py: the file name {error.object!r} is not UTF-8; rename it", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
