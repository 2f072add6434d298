"""Keys and certificates, checked by the TLS library that will use them, not by the one that made them."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ullage.pki import BadCertificate, Identity, Pair, identity, issue_client, issue_serving, issued_by, load, make_ca, save
from ullage.pki import write_private as write

NOW = datetime.now(UTC)  # the TLS library looks at the machine's clock, so these certificates must be valid today
YEAR = timedelta(days=365)
CA = make_ca("ullage test", now=NOW, lifetime=10 * YEAR)
OTHER_CA = make_ca("ullage test", now=NOW, lifetime=10 * YEAR)
SERVER = issue_serving(CA, ["localhost", "127.0.0.1", "::1"], now=NOW, lifetime=YEAR)
ADMIN = issue_client(CA, Identity("admin", ("system:masters", "staff")), now=NOW, lifetime=YEAR)


def handshake(directory: Path, *, server: Pair, client: Pair | None, trusts: Pair, host: str) -> bytes:
    """What the server learns of its client: the certificate as DER. Raises when either side refuses."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*files(directory, "server", server))
    server_side.load_verify_locations(cadata=CA.certificate.decode())
    server_side.verify_mode = ssl.CERT_OPTIONAL
    client_side = ssl.create_default_context(cadata=trusts.certificate.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    if client:
        client_side.load_cert_chain(*files(directory, "client", client))
    left, right = socket.socketpair()
    learned: list[bytes] = []

    def serve() -> None:
        try:
            with server_side.wrap_socket(left, server_side=True) as connection:
                learned.append(connection.getpeercert(binary_form=True) or b"")
                connection.sendall(b"x")
        except OSError:
            return  # the client is told by its own side

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with left, right, client_side.wrap_socket(right, server_hostname=host) as connection:
            connection.recv(1)
    finally:
        thread.join()
    return learned[0]


def files(directory: Path, name: str, pair: Pair) -> tuple[Path, Path]:
    paths = directory / f"{name}.crt", directory / f"{name}.key"
    save(pair, *paths)
    return paths


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_strict_client_trusts_the_server_under_each_of_its_names(tmp_path: Path, host: str) -> None:
    assert handshake(tmp_path, server=SERVER, client=None, trusts=CA, host=host) == b""


def test_the_server_learns_who_its_client_is(tmp_path: Path) -> None:
    certificate = handshake(tmp_path, server=SERVER, client=ADMIN, trusts=CA, host="localhost")
    assert identity(certificate) == Identity("admin", ("system:masters", "staff"))


@pytest.mark.parametrize(
    ("server", "trusts", "host"),
    [
        pytest.param(SERVER, CA, "example.com", id="a name that is not in the certificate"),
        pytest.param(SERVER, OTHER_CA, "localhost", id="another authority of the same name"),
        pytest.param(ADMIN, CA, "localhost", id="a client certificate that plays the server"),
        pytest.param(
            issue_serving(CA, ["localhost"], now=NOW - 2 * YEAR, lifetime=YEAR), CA, "localhost", id="one that has expired"
        ),
    ],
)
def test_a_client_refuses(tmp_path: Path, server: Pair, trusts: Pair, host: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, server=server, client=None, trusts=trusts, host=host)


def test_a_leaf_does_not_outlive_its_authority() -> None:
    ca = make_ca("short", now=NOW, lifetime=timedelta(days=2))
    leaf = issue_serving(ca, ["localhost"], now=NOW, lifetime=YEAR)
    assert leaf.expires == ca.expires


@pytest.mark.parametrize(
    ("days", "due"),
    [
        pytest.param(0, False, id="a new one is not due"),
        pytest.param(334, False, id="a day before the last month it is not due"),
        pytest.param(336, True, id="in the last month it is due"),
        pytest.param(400, True, id="an expired one is due"),
    ],
)
def test_when_a_certificate_is_due_to_be_replaced(days: int, due: bool) -> None:
    assert SERVER.expires_within(timedelta(days=30), now=NOW + timedelta(days=days)) is due


def test_a_certificate_knows_its_authority_by_the_key_and_not_by_the_name() -> None:
    assert issued_by(SERVER.certificate, CA)
    assert not issued_by(SERVER.certificate, OTHER_CA)


def test_a_long_host_name_is_served_though_the_common_name_is_short() -> None:
    host = ".".join(["a" * 40, "b" * 40, "svc"])
    pair = issue_serving(CA, [host], now=NOW, lifetime=YEAR)
    assert len(identity(pair.certificate).user) == 64


def test_what_is_saved_is_loaded_and_only_the_owner_can_read_it(tmp_path: Path) -> None:
    paths = files(tmp_path, "x", SERVER)
    assert load(*paths) == SERVER
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        pytest.param(SERVER.certificate, ADMIN.key, id="a key of another certificate"),
        pytest.param(b"", SERVER.key, id="an empty certificate"),
        pytest.param(SERVER.certificate, b"-----BEGIN PRIVATE KEY-----\n", id="half a key"),
        pytest.param(SERVER.key, SERVER.key, id="a key where the certificate should be"),
    ],
)
def test_a_pair_that_is_none_is_refused(tmp_path: Path, certificate: bytes, key: bytes) -> None:
    paths = tmp_path / "crt", tmp_path / "key"
    for path, content in zip(paths, (certificate, key), strict=True):
        path.write_bytes(content)
    with pytest.raises(BadCertificate):
        load(*paths)


def test_a_private_file_is_replaced_whole_and_made_private(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old and much longer than the new one")
    path.chmod(0o644)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["kubeconfig"]


def test_a_private_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write(tmp_path / "taken", b"new")
    assert os.listdir(tmp_path) == ["taken"]
