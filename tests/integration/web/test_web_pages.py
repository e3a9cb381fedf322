"""The pages as a browser gets them over ASGI: content, addresses, header fields, and what they never show."""

import subprocess
import sys


def test_what_pages_are_made_with_is_imported_with_the_first_page():
    program = (
        "import sys, skillwire.server.app\n"
        "print([name for name in ('jinja2', 'markdown_it', 'nh3') if name in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert seen.stdout == "[]\n"
