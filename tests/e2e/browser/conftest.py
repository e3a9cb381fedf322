"""One Chromium and one ``skillwire serve`` for the tests of a module.

The browser's driver keeps an event loop running in this thread, so both end with the module: the next one may have
tests that need a loop of their own.
"""

import shutil
import struct
import zlib

import pytest
from tests.support.browser import PATIENCE
from tests.support.publishing import ServeProcess, write_skill

CHROMIUM = shutil.which("chromium")
HOSTILE = "Reads <img src=x onerror=alert(1)> & <script>alert(2)</script> when somebody asks."
BODY = """# Tools

See [the script](scripts/run.py), [nothing](none.md) and [the web](https://example.com/).

## Steps

1. First `this` or `--dry-run`, `--no-index`, `--each-one`, `--no-colour`, `--as-is`, `--in-full`, `--by-hand`.
   - a
     - b
       - c
         - `--to-the-end-of-it-all`
2. Then that.

## Columns

| Column | Meaning |
|:--|--:|
| a | what stands in the first one |

```sh
tools --with many --options that --make --the --line --longer than --any --phone --is --wide --by --far
```

![A picture](assets/pixel.png)

<img src=x onerror=alert(3)> [x](javascript:alert(4))

##### Deep

Last.
"""


def picture():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright.expect.set_options(PATIENCE)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve 61 skills, some of them hostile, one of them private; give the site's address."""
    root = tmp_path_factory.mktemp("browser")
    folder = root / "skills"
    write_skill(folder, "notes", description=HOSTILE)
    write_skill(folder, "secret-plans", {"skill.toml": 'access = "private"\n'}, description="Nobody should read this.")
    files = {
        "scripts/run.py": "".join(f"print({number})  # <script>alert(5)</script>\n" for number in range(120)),
        "references/it's <b>.md".replace("<", "(").replace(">", ")"): "# Text\n",
        "assets/pixel.png": picture(),
        "assets/data.bin": bytes(range(256)),
    }
    write_skill(folder, "tools", files, body=BODY, description="Shapes, measures and joins what is at hand.")
    action = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n[inputs.city]\ntype = "string"\n'
    about = 'required = true\ndescription = "Where <b>it</b> is, as people there write the name of their city."\n'
    write_skill(folder, "forecast", {"skill.toml": action + about, "main.py": "def main(args): ...\n"})
    for number in range(57):
        scripts = {"scripts/go.sh": "echo go\n"} if number % 2 else None
        write_skill(
            folder,
            f"report-{number:02}",
            scripts,
            description=f"Writes report {number} about the {'moon' if number % 3 else 'sea'}.",
        )
    with ServeProcess(folder, home=root / "home") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def empty(tmp_path):
    """Serve a folder without skills; give the site's address."""
    (tmp_path / "skills").mkdir()
    with ServeProcess(tmp_path / "skills", home=tmp_path / "home") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def visit(chromium, served):
    """Return what opens a page, and fails the test for whatever the browser complains of."""
    complaints, contexts = [], []

    def visit(target, *, width=1280, theme="light", script=True, root=None):
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, java_script_enabled=script
        )
        contexts.append(context)
        if script:
            context.add_init_script(
                "document.addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.blockedURI))"
            )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(f"{root or served}{target}")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []


@pytest.fixture
def home_of_the_site(site, monkeypatch):
    """Let the server of all tests look for its keys where it keeps them: each test has a home of its own."""
    monkeypatch.setenv("SKILLWIRE_HOME", site.home)


@pytest.fixture
def enter(visit, site, keys, home_of_the_site):  # noqa: ARG001  # where the keys are
    """Return what signs somebody in at the site of the module and opens a page."""

    def enter(target=site.first_page, *, as_="ann", **options):
        page = visit(f"/login?next={target}", root=site.address, **options)
        page.locator("#key").fill(keys[as_])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**{target}")
        return page

    return enter
