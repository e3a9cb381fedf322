"""What a grant may name: files, functions, hosts of one owner, variables that only carry a secret."""

import pytest

from skillwire.errors import ValidationError
from skillwire.folder.fields import check_entrypoint, check_export, check_network, check_secret


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (check_entrypoint, "code/main.py"),
        (check_entrypoint, "main.py"),
        (check_export, "main"),
        (check_export, "_run2"),
        (check_network, "https://api.example.com"),
        (check_network, "https://*.example.com"),
        (check_network, "https://*.example.co.uk"),
        (check_network, "https://example.github.io"),
        (check_network, "https://api.example.com:8443"),
        (check_network, "https://xn--bcher-kva.example"),
        (check_secret, "EXAMPLE_API_KEY"),
        (check_secret, "LDAP_PASSWORD"),
        (check_secret, "GITHUB_TOKEN"),
        (check_secret, "PATHFINDER_KEY"),
    ],
)
def test_passes(check, value):
    assert check(value) == value


@pytest.mark.parametrize(
    "value", ["main.sh", "-m.py", "../main.py", "/main.py", "main.py/", "a:b.py", "", "NUL.py", "main.pyc"]
)
def test_entry_points_that_are_no_python_file_of_the_folder(value):
    with pytest.raises(ValidationError, match="ENTRYPOINT"):
        check_entrypoint(value)


@pytest.mark.parametrize("value", ["", "os.system", "main()", "1a", "class", "mäin", "a" * 129])
def test_exports_that_are_no_name_of_a_function(value):
    with pytest.raises(ValidationError, match="EXPORT"):
        check_export(value)


@pytest.mark.parametrize(
    "value",
    [
        "", "*", "https://*", "https://*.com", "https://*.co.uk", "https://*.com.br", "https://*.github.io",
        "https://*.s3.amazonaws.com", "http://example.com", "https://Example.com", "https://example.com/",
        "https://example.com/path", "https://a@example.com", "https://example.com:0", "https://example.com:65536",
        "https://example.com:080", "https://localhost", "https://db.internal", "https://printer.local",
        "https://1.0.0.127.in-addr.arpa", "https://169.254.169.254", "https://[::1]", "https://2130706433", "https://0x7f.1",
        "https://*sales.com", "https://a.*.com", "https://-a.example.com", "https://a..example.com", "https://example.com\n",
        "https://exämple.com", "wss://example.com", "example.com",
    ],
)  # fmt: skip
def test_network_patterns_that_are_too_wide_or_unclear(value):
    with pytest.raises(ValidationError, match="PERMISSION_NETWORK"):
        check_network(value)


@pytest.mark.parametrize(
    "value", ["https://localhost", "https://localhost:8756", "http://localhost:1/a", "https://api.internal"]
)
def test_a_local_name_is_told_as_one(value):
    with pytest.raises(ValidationError, match="local names are not allowed"):
        check_network(value)


@pytest.mark.parametrize(
    "value",
    [
        "", "key", "A-B", "A=B", "AWS_*", "1A", "A B", "A\n", "A" * 129,
        "PATH", "HOME", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT",
        "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS", "GIT_SSH_COMMAND", "HTTPS_PROXY", "SSL_CERT_FILE",
        "JAVA_TOOL_OPTIONS", "NPM_CONFIG_REGISTRY", "PIP_INDEX_URL",
    ],
)  # fmt: skip
def test_secrets_that_would_change_how_programs_run(value):
    with pytest.raises(ValidationError, match="PERMISSION_SECRET"):
        check_secret(value)
