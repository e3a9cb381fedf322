"""Certificates of a root, of the authority below it, and of agents and skills, made anew for each run of the tests."""

from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from skillwire.testing.fake_network import EPOCH
from skillwire.trust.ecdsa import AGENT, SKILL, EcdsaIdentity, new_key
from skillwire.trust.revocations import Revocations

NOW = datetime.fromtimestamp(EPOCH, UTC)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Issuer:
    """A certificate authority; ``above`` is who issued its own certificate."""

    def __init__(self, name, above=None):
        self.name, self.key = name, new_key()
        issuer = above or self
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _base(_name(name), _name(issuer.name), self.key, NOW - timedelta(days=1), NOW + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
        )
        if above:
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(above.key.public_key())
            builder = builder.add_extension(authority, critical=False)
        self.certificate = builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER)

    def issue(self, *, agents=(), skills=(), hosts=(), key=None, start=-1, days=7):
        key = key or new_key()
        names = [x509.UniformResourceIdentifier(f"{AGENT}{one}") for one in agents]
        names += [x509.UniformResourceIdentifier(f"{SKILL}{one}") for one in skills]
        alternatives = [*names, *(x509.IPAddress(ip_address(host)) for host in hosts)]
        begin = NOW + timedelta(days=start)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = (
            _base(_name("leaf"), _name(self.name), key, begin, begin + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(authority, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return EcdsaIdentity(key, certificate.public_bytes(Encoding.DER))


def _base(subject, issuer, key, begin, end):
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


class TakenBackNumbers(Revocations):
    """What was taken back, as a set of serial numbers, in place of signed lists."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def is_revoked(self, certificate):
        return certificate.serial_number in self.numbers


def other_curve():
    """Return a key on a curve that is not ours, and that the library takes."""
    return ec.generate_private_key(ec.SECP256K1())


def serial(identity):
    return x509.load_der_x509_certificate(identity.certificate).serial_number


@cache
def root():
    return Issuer("Root CA")


@cache
def center():
    """Return the authority below the root, which issues leaves."""
    return Issuer("SkillCenter CA", root())
