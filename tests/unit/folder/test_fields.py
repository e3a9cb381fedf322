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
    ("check", "said", "value"),
    [(check, said, value) for check, said, values in [
        (check_entrypoint, "ENTRYPOINT", [  # no Python file of the folder
            "main.sh", "-m.py", "../main.py", "/main.py", "main.py/", "a:b.py", "", "NUL.py", "main.pyc",
        ]),
        (check_export, "EXPORT", [  # no name of a function
            "", "os.system", "main()", "1a", "class", "mäin", "a" * 129,
        ]),
        (check_network, "PERMISSION_NETWORK", [  # too wide, or unclear
            "", "*", "https://*", "https://*.com", "https://*.co.uk", "https://*.com.br", "https://*.github.io",
            "https://*.s3.amazonaws.com", "http://example.com", "https://Example.com", "https://example.com/",
            "https://example.com/path", "https://a@example.com", "https://example.com:0", "https://example.com:65536",
            "https://example.com:080", "https://localhost", "https://db.internal", "https://printer.local",
            "https://1.0.0.127.in-addr.arpa", "https://169.254.169.254", "https://[::1]", "https://2130706433", "https://0x7f.1",
            "https://*sales.com", "https://a.*.com", "https://-a.example.com", "https://a..example.com", "https://example.com\n",
            "https://exämple.com", "wss://example.com", "example.com",
        ]),
        (check_network, "local names are not allowed", [  # a local name
            "https://localhost", "https://localhost:8756", "http://localhost:1/a", "https://api.internal",
        ]),
        (check_secret, "PERMISSION_SECRET", [  # they would change how programs run
            "", "key", "A-B", "A=B", "AWS_*", "1A", "A B", "A\n", "A" * 129,
            "PATH", "HOME", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT",
            "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS", "GIT_SSH_COMMAND", "HTTPS_PROXY", "SSL_CERT_FILE",
            "JAVA_TOOL_OPTIONS", "NPM_CONFIG_REGISTRY", "PIP_INDEX_URL",
        ]),
    ] for value in values],
)  # fmt: skip
def test_is_refused(check, said, value):
    with pytest.raises(ValidationError, match=said):
        check(value)
