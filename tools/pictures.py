"""Take the README's pictures: a terminal session as SVG, and a page of a server as PNG, each light and dark.

The session runs in a pseudo-terminal against a server of the example skills; what the terminal shows becomes the
picture, and nothing is drawn by hand. ``--check`` runs the session and loads the page again, writes nothing, and fails
where their words are not those of the pictures; it needs no browser. A PNG carries the digest of its page's words.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.terminal import Terminal  # noqa: E402  # from the checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PICTURES: Final = ROOT / "docs" / "pictures"
SESSION: Final = PICTURES / "session.svg"
PAGES: Final = {"light": PICTURES / "page-light.png", "dark": PICTURES / "page-dark.png"}
PAGE: Final = "/skills/working-days/call"
WRITTEN: Final = "127.0.0.1:8000"
#: Each command with the keys that answer its questions.
COMMANDS: Final = (
    ("skillwire find response codes --from {origin} --limit 1", ""),
    ("skillwire add {origin}/csv-profile --agent claude-code", "y\n"),
    ("skillwire verify", ""),
    ("skillwire call {origin}/working-days start=2026-04-02 days=5", ""),
)
COLUMNS: Final = 96
_PROMPT: Final = "$ "
_SIZE: Final = (1280, 800)
_PATIENCE: Final = 30.0
_WIDTH, _HEIGHT, _MARGIN = 8.4, 19, 16  # pixels of a character, and of the margin
_COLORS: Final = {  # of the terminal → of the picture, on a light and on a dark page
    "default": ("#1f2328", "#e6edf3"),
    "red": ("#cf222e", "#ff7b72"),
    "green": ("#116329", "#7ee787"),
    "brown": ("#7d4e00", "#e3b341"),
    "blue": ("#0550ae", "#79c0ff"),
    "magenta": ("#8250df", "#d2a8ff"),
    "cyan": ("#1b7c83", "#76e3ea"),
}
_STYLE: Final = """
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: {default[0]} }}
.bold {{ font-weight: 700 }} .dim {{ opacity: .65 }} .box {{ fill: #f6f8fa; stroke: #d1d9e0 }}
{light}
g {{ animation: show .01s both }}
@keyframes show {{ from {{ opacity: 0 }} }}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none }} }}
@media (prefers-color-scheme: dark) {{
text {{ fill: {default[1]} }} .box {{ fill: #0d1117; stroke: #3d444d }}
{dark}
}}"""

#: A row of the terminal: text, color, and whether it is bold and dim.
Run = tuple[str, str, bool, bool]


def main() -> int:
    """Write or check the pictures; return the exit code."""
    is_check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory(prefix="skillwire-pictures-") as folder, serving(Path(folder)) as origin:
        steps = play(Path(folder), origin)
        words = words_of_page(origin)
        if is_check:
            stale = [SESSION] if words_of(SESSION.read_text()) != words_of(as_svg(steps)) else []
            stale += [path for path in PAGES.values() if stamp_of(path) != digest(words)]
            for path in stale:
                print(f"stale: {path.relative_to(ROOT)}; fix: .venv/bin/python tools/pictures.py")
            return bool(stale)
        PICTURES.mkdir(exist_ok=True)
        SESSION.write_text(as_svg(steps))
        take_pages(origin, digest(words))
    for path in (SESSION, *PAGES.values()):
        print(f"written: {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    return 0


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the example skills; give host and port, those of the pictures if they are free."""
    with socket.socket() as probe:
        is_free = probe.connect_ex(("127.0.0.1", 8000)) != 0
    shutil.copytree(ROOT / "examples" / "skills", folder / "skills")
    with socket.create_server(("127.0.0.1", 8000 if is_free else 0), reuse_port=False) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "skillwire", "serve", "skills", "--grant-all", "--no-access-log", "-q"]
    environment = {**os.environ, "SKILLWIRE_HOME": str(folder / "server")}
    server = subprocess.Popen([*command, "--port", str(port)], cwd=folder, env=environment)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                break
            if time.monotonic() > deadline or server.poll() is not None:
                sys.exit("pictures: the server did not start")
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(_PATIENCE)


def play(folder: Path, origin: str) -> list[list[list[Run]]]:
    """Type the commands into a shell; return the rows of each command and its output."""
    project, programs = folder / "project", folder / "programs"
    project.mkdir()
    programs.mkdir()
    (programs / "skillwire").write_text(f'#!/bin/sh\nexec {sys.executable} -m skillwire "$@"\n')
    (programs / "skillwire").chmod(0o755)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder),
        "SKILLWIRE_HOME": str(folder / "home"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PS1": _PROMPT,
    }
    steps: list[list[list[Run]]] = []
    shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    with Terminal(shell, cwd=project, environment=environment, columns=COLUMNS, lines=60) as terminal:
        for number, (command, keys) in enumerate(COMMANDS, 1):
            terminal.until(_has_prompts(number))
            before = terminal.text().count("\n")
            terminal.type(command.format(origin=origin) + "\n")
            if keys:
                terminal.until("[y/N]")
                terminal.type(keys)
            terminal.until(_has_prompts(number + 1))
            rows = [runs_of(row, origin) for row in terminal.rows()]
            steps.append(rows[before : terminal.text().count("\n")])
    return steps


def _has_prompts(number: int) -> Callable[[str], bool]:
    return lambda text: len(re.findall(r"^\$(?: |$)", text, re.MULTILINE)) == number


def runs_of(row: list, origin: str) -> list[Run]:  # type: ignore[type-arg]  # characters of pyte
    """Return the parts of a row that look alike; the address is that of the pictures."""
    runs = []
    for (color, is_bold, is_dim), characters in groupby(row, lambda one: (one.fg, one.bold, one.italics)):
        text = "".join(one.data for one in characters)
        runs.append((text.replace(origin, WRITTEN), color if color in _COLORS else "default", is_bold, is_dim))
    while runs and not runs[-1][0].strip():
        runs.pop()
    return runs


def as_svg(steps: list[list[list[Run]]]) -> str:
    """Return the session as a picture in which one command after the other appears, and all stay."""
    style = _STYLE.format(
        default=_COLORS["default"],
        light="\n".join(f".{name} {{ fill: {both[0]} }}" for name, both in _COLORS.items()),
        dark="\n".join(f".{name} {{ fill: {both[1]} }}" for name, both in _COLORS.items()),
    )
    height, seconds, parts = _MARGIN, 0.5, []
    for rows in steps:
        for number, row in enumerate(rows):
            height += _HEIGHT
            column, line = 0, []
            for text, color, is_bold, is_dim in row:
                shown = text.rstrip()
                if shown:
                    marks = " ".join(filter(None, (color, "bold" * is_bold, "dim" * is_dim)))
                    x, width = _MARGIN + column * _WIDTH, len(shown) * _WIDTH
                    place = f'x="{x:g}" y="{height}" textLength="{width:g}"'
                    line.append(f'<text {place} class="{marks}">{html.escape(shown)}</text>')
                column += len(text)
            parts.append(f'<g style="animation-delay:{seconds:.1f}s">{"".join(line)}</g>')
            seconds += 1.0 if number == 0 else 0.05
        height += _HEIGHT // 2
        seconds += 1.5
    width, height = round(COLUMNS * _WIDTH + 2 * _MARGIN), height + _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    box = f'<rect class="box" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    title = "<title>A terminal session: find, add, verify and call skills</title>"
    return "\n".join([head, title, f"<style>{style}\n</style>", box, *parts, "</svg>"]) + "\n"


def words_of(document: str) -> list[str]:
    """Return the words that a document shows, without its styles and scripts."""
    text = re.sub(r"<(style|script|title)\b.*?</\1>|<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", " ", document, flags=re.DOTALL)
    return html.unescape(text).split()


def words_of_page(origin: str) -> str:
    """Return the words of the page that is photographed, with the address of the pictures."""
    request = urllib.request.Request(f"http://{origin}{PAGE}", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310  # our own server
        return " ".join(words_of(answer.read().decode())).replace(origin, WRITTEN)


def digest(text: str) -> str:
    """Return the digest that a picture of these words carries."""
    return hashlib.sha256(text.encode()).hexdigest()


def take_pages(origin: str, stamp: str) -> None:
    """Take a picture of the page in each color scheme."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # checking does without

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        for scheme, path in PAGES.items():
            width, height = _SIZE
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]  # light or dark
            page.goto(f"http://{origin}{PAGE}")
            path.write_bytes(with_stamp(page.screenshot(), stamp))
        browser.close()


def with_stamp(png: bytes, stamp: str) -> bytes:
    """Return a PNG with a text chunk that holds ``stamp``. Spec: PNG §11.3.3."""
    chunk = b"tEXtwords\0" + stamp.encode()
    return png[:33] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


def stamp_of(path: Path) -> str:
    """Return the stamp of a PNG, or nothing."""
    found = re.search(rb"tEXtwords\0([0-9a-f]{64})", path.read_bytes())
    return found[1].decode() if found else ""


if __name__ == "__main__":
    sys.exit(main())
