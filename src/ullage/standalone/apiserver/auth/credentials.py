"""The server's own keys, made once for a data directory: authority, serving certificate, signing key, administrator's token."""

from __future__ import annotations

import base64
import secrets
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ullage import pki
from ullage.standalone.apiserver.auth.tokens import SigningKey
from ullage.standalone.apiserver.objects import Json

AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=60)
KUBELET_CLIENT = pki.Identity("kube-apiserver-kubelet-client")
HOSTS = (
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)


@dataclass(frozen=True, slots=True)
class Credentials:
    authority: pki.Pair
    certificate: Path  # of the server, as files: the TLS library reads no other way
    key: Path
    signing: SigningKey
    admin_token: str
    kubelet_client: ssl.SSLContext  # to kubelets, which are known by their Nodes


def prepare(directory: Path, now: datetime) -> Credentials:
    """Loads what is there, and makes what is missing or about to expire. Idempotent."""
    directory.mkdir(mode=0o700, exist_ok=True)
    authority = _authority(directory, now)
    certificate, key = directory / "server.crt", directory / "server.key"
    if _stale(certificate, key, authority, now):
        pki.save(pki.issue_serving(authority, HOSTS, now=now, lifetime=SERVING_LIFE), certificate, key)
    signing = _signing_key(directory / "service-accounts.key")
    return Credentials(authority, certificate, key, signing, _token(directory), _kubelet_client(directory, authority, now))


def _kubelet_client(directory: Path, authority: pki.Pair, now: datetime) -> ssl.SSLContext:
    """How we show kubelets who we are. Their own certificates are nobody's but theirs: whoever connects compares digests."""
    certificate, key = directory / "kubelet-client.crt", directory / "kubelet-client.key"
    if _stale(certificate, key, authority, now):
        pki.save(pki.issue_client(authority, KUBELET_CLIENT, now=now, lifetime=SERVING_LIFE), certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(certificate, key)
    return context


def _authority(directory: Path, now: datetime) -> pki.Pair:
    certificate, key = directory / "ca.crt", directory / "ca.key"
    if certificate.exists():
        return pki.load(certificate, key)
    authority = pki.make_ca("ullage-embedded", now=now, lifetime=AUTHORITY_LIFE)
    pki.save(authority, certificate, key)
    return authority


def _stale(certificate: Path, key: Path, authority: pki.Pair, now: datetime) -> bool:
    if not certificate.exists():
        return True
    try:
        pair = pki.load(certificate, key)
    except (pki.BadCertificate, FileNotFoundError):  # a crash between the two files of a renewal
        return True
    return pair.expires_within(RENEW_BEFORE, now=now) or not pki.issued_by(pair.certificate, authority)


def _signing_key(path: Path) -> SigningKey:
    if not path.exists():
        private = ec.generate_private_key(ec.SECP256R1())
        pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        pki.write_private(path, pem)
    return SigningKey.from_pem(path.read_bytes())


def _token(directory: Path) -> str:
    path = directory / "admin.token"
    if not path.exists():
        pki.write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def kubeconfig(credentials: Credentials, port: int) -> bytes:
    """What kubectl needs to reach the server as its administrator."""
    authority = base64.b64encode(credentials.authority.certificate).decode()
    server = f"https://127.0.0.1:{port}"
    config: Json = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "ullage", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": credentials.admin_token}}],
        "contexts": [{"name": "ullage", "context": {"cluster": "ullage", "user": "admin"}}],
        "current-context": "ullage",
    }
    return msgspec.yaml.encode(config)
