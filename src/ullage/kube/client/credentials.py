"""Who we are, request by request: tokens and certificates that change while we run.

Files are looked at again at most once a minute, and at once when the server says 401; a file that cannot be read for the
moment leaves what it said last. A plugin's credential is kept until it expires; requests that need a new one wait for one
run of the plugin.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from ullage.clock import Clock
from ullage.kube.client import exec_plugin
from ullage.kube.client.config import Config
from ullage.kube.client.exec_plugin import Credential, PluginFailed
from ullage.kube.client.kubeconfig import BadConfig

# TLS contexts for talking to an API server: whom we trust there, and the certificate that we show.


def client_context(*, ca: bytes = b"", insecure: bool = False, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """A context that trusts `ca` alone, or this machine's authorities where none is given."""
    try:
        context = ssl.create_default_context(cadata=ca.decode() if ca else None)
    except (ssl.SSLError, ValueError):
        raise BadConfig("cluster", "certificate-authority", "this holds no PEM certificate") from None
    # Clusters' own authorities are often made without the extensions that newer Pythons demand by default; and, as with Go,
    # an intermediate that was handed to us as an authority is one.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _show(context, certificate, key)
    return context


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _file_of(certificate + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError):
            problem = "these are not a PEM certificate and the unencrypted key that belongs to it"
            raise BadConfig("user", "client-certificate, client-key", problem) from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # without this, OpenSSL would ask whoever sits at the terminal


@contextlib.contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """OpenSSL reads keys from files only. Where the system has files in memory, the key touches no disk."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("client-key"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(data)
        named.flush()
        yield named.name


LOOK_SECONDS = 60.0
SOON_SECONDS = 1.0

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """What a request carries. Two of them are the same one, or differ in what they say."""

    headers: Headers = field(repr=False)
    ssl: ssl.SSLContext | None  # None: the server speaks plain HTTP


@dataclass(frozen=True, slots=True)
class _Secrets:
    token: str = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    ca: bytes


class Credentials:
    """The current `Access` for one configuration."""

    def __init__(self, config: Config, *, clock: Clock, environ: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._files = {name: _File(getattr(config, f"{name}_file")) for name in ("token", "certificate", "key", "ca")}
        self._lock = asyncio.Lock()
        self._plugged: Credential | None = None
        self._access: Access | None = None
        self._made_of: _Secrets | None = None
        self._look_at = 0.0

    async def access(self) -> Access:
        """What to send now. Costs nothing unless a minute has passed or a credential has expired."""
        if self._access is not None and self._clock.monotonic() < self._look_at and self._plugged_good():
            return self._access
        async with self._lock:
            return await self._look()

    async def renewed(self, refused: Access) -> Access | None:
        """After a 401: other credentials to try, or None where there are none."""
        async with self._lock:
            if self._access is not None and self._access is not refused:
                return self._access  # another request has renewed them meanwhile
            self._plugged = None
            self._look_at = 0.0
            access = await self._look()
        return access if access is not refused else None

    async def _look(self) -> Access:
        now = self._clock.monotonic()
        if self._access is not None and now < self._look_at and self._plugged_good():
            return self._access
        if self._config.plugin is not None and not (self._plugged and self._plugged_good()):
            self._plugged = await exec_plugin.run(self._config.plugin, environ=self._environ)
            if not self._plugged_good():
                raise PluginFailed(f"{self._config.plugin.where}: the credential had expired when it was printed")
        secrets = self._secrets()
        self._look_at = now + LOOK_SECONDS
        if self._access is not None and secrets == self._made_of:
            return self._access
        try:
            self._access, self._made_of = self._make(secrets), secrets
        except BadConfig:
            if self._access is None:
                raise
            self._look_at = now + SOON_SECONDS  # somebody is just replacing the files, and one of two is new
        return self._access

    def _plugged_good(self) -> bool:
        return self._plugged is None or self._plugged.good_at(self._clock.now())

    def _secrets(self) -> _Secrets:
        config, plugged = self._config, self._plugged or Credential()
        token = self._files["token"].read().decode("utf-8", "replace").strip() or config.token or plugged.token
        certificate = self._files["certificate"].read() or config.certificate
        key = self._files["key"].read() or config.key
        if not certificate:
            certificate, key = plugged.certificate, plugged.key
        return _Secrets(token, certificate, key, self._files["ca"].read() or config.ca)

    def _make(self, secrets: _Secrets) -> Access:
        config = self._config
        headers: list[tuple[str, str]] = []
        if not secrets.token.isprintable() or not secrets.token.isascii():
            raise BadConfig("user", "token", "this holds characters that no token has")
        if secrets.token:
            headers.append(("Authorization", f"Bearer {secrets.token}"))
        elif config.username:
            basic = b64encode(f"{config.username}:{config.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {basic}"))
        headers += _impersonation(config)
        if not config.server.startswith("https:"):
            return Access(tuple(headers), None)
        context = client_context(ca=secrets.ca, insecure=config.insecure, certificate=secrets.certificate, key=secrets.key)
        return Access(tuple(headers), context)


class _File:
    """A small file that somebody may replace. It is read again only when it looks different."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._content = b""

    def read(self) -> bytes:
        if not self._path:
            return b""
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                with open(self._path, "rb") as file:
                    self._content = file.read() or self._content  # empty: it is being written this very moment
                self._seen = seen
        except OSError:  # a kubelet is just swapping it, or the disk hiccups: what we know may well be good still
            pass
        return self._content


def _impersonation(config: Config) -> list[tuple[str, str]]:
    acting_as = config.acting_as
    if acting_as is None:
        return []
    headers = [("Impersonate-User", acting_as.user)]
    if acting_as.uid:
        headers.append(("Impersonate-Uid", acting_as.uid))
    headers += [("Impersonate-Group", group) for group in acting_as.groups]
    for key, values in acting_as.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return headers
