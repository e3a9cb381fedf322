import subprocess
import sys


def test_reading_a_plain_url_imports_nothing_heavy():
    code = (
        "import sys; from skillwire.model.url import parse_url, resolve_url;"
        "resolve_url(parse_url('https://example.com:8443/a'), '../b');"
        "print([m for m in ('urllib.parse', 'ipaddress', 'unicodedata', 'socket') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
