#!/usr/bin/env python3
"""Fills the {{placeholders}} of a .docx template.

The parts that hold text are changed as text, paragraph by paragraph, and every other byte of the document
stays as it is: parsing and writing the XML anew would rename prefixes that Word relies on.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
import zipfile
import zlib
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parent.parent / "assets" / "letter.docx"
TEXT_PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")
PART_BYTES = 20 * 1024 * 1024  # a document of 1,000 pages needs about 5 MiB
PLACEHOLDER = re.compile(r"\{\{([a-z0-9_]+)\}\}")
PARAGRAPH = re.compile(r"<w:p(?:>|\s[^>]*[^/]>|\s*>).*?</w:p>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
BREAK = '</w:t><w:br/><w:t xml:space="preserve">'
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")  # no XML can hold them


class Refused(Exception):
    """Nothing is written; the message says why and what to do."""


def read_parts(path: Path) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Return the parts of a .docx in their order."""
    try:
        with zipfile.ZipFile(path) as archive:
            if "word/document.xml" not in archive.namelist():
                raise Refused(f"{path} is no Word document (it has no word/document.xml)")
            if large := [info.filename for info in archive.infolist() if info.file_size > PART_BYTES]:
                raise Refused(f"{path}: {large[0]} is larger than {PART_BYTES} bytes")
            return [(info, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, zlib.error, RuntimeError) as error:  # the last for encryption and odd compression
        raise Refused(f"{path} is no .docx file that can be read ({error})") from error


def text_parts(parts: list[tuple[zipfile.ZipInfo, bytes]]) -> list[str]:
    """Return the parts that hold text, decoded."""
    try:
        return [content.decode("utf-8") for info, content in parts if TEXT_PARTS.fullmatch(info.filename)]
    except UnicodeDecodeError as error:
        raise Refused("the document's text is not UTF-8; save it again in Word or LibreOffice") from error


def plain(xml: str) -> str:
    """Return the words of a piece of the document."""
    return html.unescape(TAG.sub("", re.sub(r"<w:(br|tab)\b[^>]*>", "\n", xml)))


def placeholders(parts: list[tuple[zipfile.ZipInfo, bytes]]) -> list[str]:
    """Return the names of all placeholders in their order; refuse those stored in pieces."""
    names: list[str] = []
    for xml in text_parts(parts):
        whole, visible = PLACEHOLDER.findall(xml), PLACEHOLDER.findall(plain(xml))
        if split := sorted(set(visible) - set(whole)):
            named = ", ".join(f"{{{{{name}}}}}" for name in split)
            raise Refused(f"stored in pieces: {named}; delete each in Word and type it again in one go")
        names += [name for name in whole if name not in names]
    return names


def checked(values: object, names: list[str]) -> dict[str, str | list[str]]:
    """Return the values when they are exactly what the template wants."""
    if not isinstance(values, dict):
        raise Refused("the values must be one JSON object")
    wrong = [f"missing: {name}" for name in names if name not in values]
    wrong += [f"not in the template: {name}" for name in values if name not in names]
    for name, value in values.items():
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            wrong.append(f"{name}: must be a text or a list of texts")
        elif any(FORBIDDEN.search(text) for text in texts):
            wrong.append(f"{name}: holds a control character")
    if wrong:
        raise Refused("\n  ".join(["the values do not fit the template", *wrong]))
    return values


def fill(xml: str, values: dict[str, str | list[str]]) -> str:
    """Return a part with its placeholders filled."""

    def escaped(text: str) -> str:
        return html.escape(text, quote=False).replace("\r\n", "\n").replace("\n", BREAK)

    def paragraph(match: re.Match[str]) -> str:
        whole = match.group()
        alone = PLACEHOLDER.fullmatch(plain(whole).strip())
        if alone and isinstance(values[alone[1]], list):
            return "".join(whole.replace(alone[0], escaped(text)) for text in values[alone[1]])
        return PLACEHOLDER.sub(inline, whole)

    def inline(match: re.Match[str]) -> str:
        value = values[match[1]]
        return escaped("\n".join(value) if isinstance(value, list) else value)

    return PARAGRAPH.sub(paragraph, xml)


def write(path: Path, parts: list[tuple[zipfile.ZipInfo, bytes]], values: dict, *, force: bool) -> None:
    """Write the filled document, never over an existing file unless told."""
    try:
        with path.open("wb" if force else "xb") as stream, zipfile.ZipFile(stream, "w") as archive:
            for info, content in parts:
                holds_text = TEXT_PARTS.fullmatch(info.filename)
                archive.writestr(info, fill(content.decode("utf-8"), values) if holds_text else content)
    except FileExistsError as error:
        raise Refused(f"{path} exists; --force replaces it") from error


def words(path: Path) -> str:
    """Return the text of a document, one line a paragraph."""
    parts = read_parts(path)
    lines = [plain(match.group()) for xml in text_parts(parts) for match in PARAGRAPH.finditer(xml)]
    return "\n".join(lines)


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="fill_letter.py", description="Fill the placeholders of a .docx template.")
    parser.add_argument("values", nargs="?", type=Path, help="a JSON file with the values")
    parser.add_argument("-o", "--output", type=Path, metavar="DOCX", help="write the letter here")
    parser.add_argument("--template", type=Path, default=TEMPLATE, metavar="DOCX", help="default: the built-in letter")
    parser.add_argument("--list", action="store_true", help="print the template's placeholders as JSON to fill in")
    parser.add_argument("--text", type=Path, metavar="DOCX", help="print the words of a document")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    return parser


def run(options: argparse.Namespace) -> str:
    """Do what was asked; return what to print."""
    if options.text:
        return words(options.text)
    parts = read_parts(options.template)
    names = placeholders(parts)
    if options.list:
        return json.dumps(dict.fromkeys(names, ""), indent=2)
    try:
        values = checked(json.loads(options.values.read_text(encoding="utf-8")), names)
    except ValueError as error:
        raise Refused(f"{options.values} is not JSON in UTF-8: {error}") from error
    write(options.output, parts, values, force=options.force)
    return f"{options.output}: {len(names)} placeholders filled"


def main() -> int:
    """Run the command line; return the exit code."""
    parser = arguments()
    options = parser.parse_intermixed_args()
    if not (options.text or options.list or (options.values and options.output)):
        parser.error("say VALUES -o DOCX to write a letter, or --list, or --text DOCX")
    try:
        print(run(options))
    except Refused as error:
        print(f"fill_letter.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"fill_letter.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
