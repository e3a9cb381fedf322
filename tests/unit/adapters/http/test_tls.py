"""What a failed handshake is reported as."""

import ssl

import pytest

from skillwire.adapters.http.tls import tls_failure
from skillwire.model.url import parse_url

URL = parse_url("https://skills.example/index.json")


def failure():
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_message = "unable to get local issuer certificate"
    found = tls_failure(URL, error)
    assert found is not None
    return found


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_file_of_authorities_that_cannot_be_read_is_named(tmp_path, monkeypatch, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    found = failure()
    assert f"SSL_CERT_FILE is {path}, which cannot be read" in found.message
    assert found.diagnostics().fix == "Set SSL_CERT_FILE to a PEM file with certificates."


def test_certificate_is_at_fault_without_such_a_file(monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    message = "the certificate of skills.example is not valid: unable to get local issuer certificate"
    assert failure().message == message
