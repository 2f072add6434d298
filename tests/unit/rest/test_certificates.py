"""Where the API's certificate comes from: an authority of its own that clients find in a ConfigMap, or files that change."""

from __future__ import annotations

import asyncio
import base64
import logging
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from prometheus_client import Gauge

from tests.unit.admission.builders import FakeApi
from tests.unit.kube.virtual_time import in_virtual_time
from ullage import pki
from ullage.clock import FakeClock, SystemClock
from ullage.errors import BadInput
from ullage.pki import Pair
from ullage.rest.certificates import FileCertificates, OwnCertificates
from ullage.serving import certificates
from ullage.serving.certificates import Step, Terms
from ullage.serving.rotation import SecretName
from ullage.serving.server import Certificate

TERMS = Terms(hosts=("localhost",), authority="ullage-api", settle=60.0, keep=600.0)


def gauge() -> Gauge:
    return Gauge("expires", "for the test", registry=None)


class Replica:
    def __init__(self, api: FakeApi, clock: FakeClock) -> None:
        self.api = api
        self.certificate = Certificate()
        self.told: list[bytes] = []
        self.source = OwnCertificates(
            api.client,
            self.certificate,
            secret_name=SecretName("system", "tls"),
            config_map="ca",
            terms=TERMS,
            expires=gauge(),
            clock=clock,
            tell=self.told.append,
        )

    @property
    def published(self) -> bytes:
        return str(self.api.objects["ConfigMap", "ca"]["data"]["ca.crt"]).encode()

    @property
    def stored(self) -> certificates.CertificateSet:
        data = self.api.objects["Secret", "tls"]["data"]
        return certificates.from_secret({key: base64.b64decode(value) for key, value in data.items()})


async def test_the_first_replica_makes_an_authority_and_publishes_it_and_the_others_take_it() -> None:
    api, clock = FakeApi(), FakeClock()
    first, second = Replica(api, clock), Replica(api, clock)
    await first.source.open()
    writes = list(api.writes)
    await second.source.open()
    assert api.writes == writes == ["create Secret tls", "apply ConfigMap ca"]
    assert first.certificate.pair == second.certificate.pair
    assert first.published == first.stored.authority.certificate == first.told[-1] == second.told[-1]
    assert api.objects["ConfigMap", "ca"]["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "ullage"}


async def test_a_config_map_that_somebody_spoilt_or_deleted_is_published_again() -> None:
    api = FakeApi()
    replica = Replica(api, FakeClock())
    await replica.source.open()
    api.objects["ConfigMap", "ca"]["data"] = {"ca.crt": "something else"}
    await replica.source.open()
    assert replica.published == replica.stored.bundle
    del api.objects["ConfigMap", "ca"]
    await replica.source.open()
    assert replica.published == replica.stored.bundle


async def test_a_new_authority_is_published_before_its_certificate_is_shown() -> None:
    api, clock = FakeApi(), FakeClock()
    replica = Replica(api, clock)
    await replica.source.open()
    old = replica.stored.authority.certificate
    clock.advance((TERMS.authority_lifetime - TERMS.authority_renewal + timedelta(days=1)).total_seconds())
    steps = []
    for _ in range(40):
        before = replica.certificate.pair
        step = await replica.source.round(await replica.source.look())
        steps.append(step)
        if step is Step.PROMOTE:
            await replica.source.round(await replica.source.look())
            assert before is not None
            assert old in replica.published
            assert replica.stored.authority.certificate in replica.published
        clock.advance(61.0)
    wanted = [Step.INTRODUCE, Step.PUBLISH, Step.PROMOTE, Step.RETIRE, Step.PUBLISH]
    assert [one for one in steps if one not in (None, Step.RENEW)] == wanted
    assert replica.published == replica.stored.authority.certificate != old
    assert replica.told[-1] == replica.published


def pair(name: str) -> Pair:
    now = SystemClock().now()
    authority = pki.make_ca("theirs", now=now, lifetime=timedelta(days=1))
    return pki.issue_serving(authority, [name], now=now, lifetime=timedelta(hours=1))


class Files:
    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.context = Certificate()
        self.source = FileCertificates(self.context, certificate_file=self.certificate, key_file=self.key, expires=gauge())

    def write(self, certificate: bytes, key: bytes) -> None:
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)


async def test_a_certificate_of_an_administrators_is_taken(tmp_path: Path) -> None:
    files, theirs = Files(tmp_path), pair("api.example.com")
    files.write(theirs.certificate, theirs.key)
    await files.source.open()
    assert files.context.pair == theirs


def rsa_pair(name: str) -> Pair:
    """As cert-manager and most authorities issue them."""
    key, now = rsa.generate_private_key(65537, 2048), SystemClock().now()
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(called, called, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), private)


async def test_keys_of_an_administrators_may_be_of_another_kind_than_ours(tmp_path: Path) -> None:
    files, theirs = Files(tmp_path), rsa_pair("api.example.com")
    files.write(theirs.certificate, theirs.key)
    await files.source.open()
    assert files.context.pair == theirs
    files.write(theirs.certificate, rsa_pair("api.example.com").key)
    with pytest.raises(BadInput, match=r"is not the key of"):
        await files.source.open()


async def test_files_that_cannot_be_served_with_are_told_of_by_name(tmp_path: Path) -> None:
    files, one, other = Files(tmp_path), pair("a"), pair("b")
    with pytest.raises(BadInput, match=r"tls\.crt: cannot be read: No such file or directory"):
        await files.source.open()
    files.write(one.certificate, other.key)
    with pytest.raises(BadInput, match=r"--tls-key .*tls\.key: is not the key of --tls-certificate .*tls\.crt"):
        await files.source.open()
    files.write(b"nothing", one.key)
    with pytest.raises(BadInput, match=r"--tls-certificate .*tls\.crt: it, or --tls-key .*tls\.key, is "):
        await files.source.open()
    assert not files.context.loaded


def test_files_that_change_are_read_again_and_spoilt_ones_leave_what_is_in_use(tmp_path: Path) -> None:
    files, one, other = Files(tmp_path), pair("a"), pair("b")

    async def live() -> None:
        files.write(one.certificate, one.key)
        await files.source.open()
        task = asyncio.create_task(files.source.run(30.0))
        files.write(other.certificate, one.key)
        await asyncio.sleep(31)
        assert files.context.pair == one
        files.write(other.certificate, other.key)
        await asyncio.sleep(31)
        assert files.context.pair == other
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(live())


def chain_cut_off(files: Files, other: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes first is whole, and the key is its own; only the TLS library reads on."""
    files.write(other.certificate + other.certificate[: len(other.certificate) // 2], other.key)


def nowhere_to_write(files: Files, other: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(other.certificate, other.key)
    monkeypatch.setattr(tempfile, "tempdir", str(files.key.parent / "no-such-folder"))


def key_half_written(files: Files, other: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(other.certificate, other.key[: len(other.key) // 2])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(key_half_written, "is not a private key", id="a key that is half written"),
        pytest.param(chain_cut_off, "tls.crt: cannot be served with: ", id="a chain whose second certificate is cut off"),
        pytest.param(nowhere_to_write, "tls.crt: cannot be served with: ", id="a disk that takes nothing"),
    ],
)
def test_whatever_keeps_new_files_from_being_used_the_old_ones_serve_on_and_it_is_tried_again(
    spoil: Callable[[Files, Pair, pytest.MonkeyPatch], None],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, one, other = Files(tmp_path), pair("a"), pair("b")

    async def live() -> None:
        files.write(one.certificate, one.key)
        await files.source.open()
        task = asyncio.create_task(files.source.run(30.0))
        with monkeypatch.context() as world:
            spoil(files, other, world)
            await asyncio.sleep(61)
        assert not task.done(), "it goes on looking"
        assert files.context.pair == one
        files.write(other.certificate, other.key)
        await asyncio.sleep(31)
        assert files.context.pair == other
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.WARNING):
        in_virtual_time(live())
    told = [str(getattr(record, "error", "")) for record in caplog.records]
    assert len(told) == 2, "once for each try"
    assert all(said in each for each in told), told


async def test_a_chain_that_is_cut_off_is_told_of_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    chain_cut_off(files, pair("a"), monkeypatch)
    with pytest.raises(BadInput, match=r"--tls-certificate .*tls\.crt: cannot be served with: "):
        await files.source.open()
