"""Keys and certificates: one small certificate authority, and what it issues.

All that it issues is ECDSA P-256 and PEM; others may bring keys of other kinds. The time is an argument; a certificate's serial
follows from its key, subject and start, so the key is the only thing here that is random.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ullage.errors import Terminal

SKEW = timedelta(minutes=5)  # a client whose clock is behind ours must not find the certificate "not yet valid"


class BadCertificate(Terminal):
    """A PEM that holds no certificate or no key of ours, or a key that belongs to another certificate."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def expires(self) -> datetime:
        return _certificate(self.certificate).not_valid_after_utc

    def expires_within(self, span: timedelta, *, now: datetime) -> bool:
        """Whether it is time to issue a new one."""
        return self.expires <= now + span


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client certificate speaks for: CN is the user, each O is a group."""

    user: str
    groups: tuple[str, ...] = ()


def make_ca(name: str, *, now: datetime, lifetime: timedelta) -> Pair:
    """A self-signed authority. It may issue certificates, but no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(subject, subject, key.public_key(), start=now - SKEW, end=now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(ca: Pair, hosts: Sequence[str], *, now: datetime, lifetime: timedelta) -> Pair:
    """A server's certificate. `hosts` are DNS names and IP addresses, mixed. The common name, which clients ignore and
    X.509 holds to 64 characters, is cut from the first."""
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    return _issue(ca, _name(hosts[0][:64]), ExtendedKeyUsageOID.SERVER_AUTH, names=names, now=now, lifetime=lifetime)


def issue_client(ca: Pair, who: Identity, *, now: datetime, lifetime: timedelta) -> Pair:
    """A client's certificate, as Kubernetes reads it. X.509 holds user and groups to 64 characters each."""
    return _issue(ca, _name(who.user, who.groups), ExtendedKeyUsageOID.CLIENT_AUTH, names=None, now=now, lifetime=lifetime)


def identity(certificate: bytes) -> Identity:
    """Who a certificate (PEM, or DER as a TLS library hands it over) speaks for."""
    subject = _certificate(certificate).subject
    users = [str(item.value) for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(item.value) for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return Identity(users[-1] if users else "", tuple(groups))


def issued_by(certificate: bytes, ca: Pair) -> bool:
    """Whether this authority signed that certificate: after a new authority, old certificates are waste paper."""
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(ca.certificate))
    except Exception:  # the library raises InvalidSignature, ValueError or TypeError: all mean "no"
        return False
    return True


def load(certificate: Path, key: Path) -> Pair:
    """Reads a pair from two files and makes sure that they belong together."""
    pair = Pair(certificate.read_bytes(), key.read_bytes())
    if not belongs(pair):
        raise BadCertificate(f"{key} is not the key of {certificate}")
    return pair


def belongs(pair: Pair) -> bool:
    """Whether the key, of whatever kind, is that of the certificate. Raises BadCertificate where one of them is neither."""
    return _certificate(pair.certificate).public_key() == _any_private_key(pair.key).public_key()


def hosts(certificate: bytes) -> frozenset[str]:
    """The DNS names and addresses that a serving certificate is good for."""
    try:
        names = _certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def save(pair: Pair, certificate: Path, key: Path) -> None:
    """Writes both files, private. The key goes first: a certificate without its key would be taken for a whole pair."""
    write_private(key, pair.key)
    write_private(certificate, pair.certificate)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, all or nothing, and durably: a crash leaves the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _issue(
    ca: Pair,
    subject: x509.Name,
    use: x509.ObjectIdentifier,
    *,
    names: x509.SubjectAlternativeName | None,
    now: datetime,
    lifetime: timedelta,
) -> Pair:
    issuer, issuer_key = _certificate(ca.certificate), _private_key(ca.key)
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, issuer.not_valid_after_utc)  # a leaf that outlives its authority would fail by surprise
    builder = (
        _builder(subject, issuer.subject, key.public_key(), start=now - SKEW, end=end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    public = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    seed = public + subject.public_bytes() + start.isoformat().encode()
    serial = int.from_bytes(hashlib.sha256(seed).digest()[:16]) | 1  # 128 bits, and never zero, which X.509 forbids
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key, serial_number=serial)
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [(NameOID.ORGANIZATION_NAME, group) for group in organizations] + [(NameOID.COMMON_NAME, common_name)]
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _certificate(data: bytes) -> x509.Certificate:
    try:
        pem = data.lstrip().startswith(b"-----BEGIN")
        return x509.load_pem_x509_certificate(data) if pem else x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise BadCertificate(f"not a certificate: {error}") from error


def _any_private_key(data: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise BadCertificate(f"not a private key: {error}") from error


def _private_key(data: bytes) -> ec.EllipticCurvePrivateKey:
    key = _any_private_key(data)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificate("not an elliptic-curve key")
    return key
