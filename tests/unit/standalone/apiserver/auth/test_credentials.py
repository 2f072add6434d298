"""The server's keys: made once, private, and whole after a crash at any moment."""

from __future__ import annotations

import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from ullage import pki
from ullage.standalone.apiserver.auth.credentials import RENEW_BEFORE, SERVING_LIFE, kubeconfig, prepare

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def test_they_are_made_once_and_kept(tmp_path: Path) -> None:
    first = prepare(tmp_path / "pki", NOW)
    before = contents(tmp_path / "pki")
    second = prepare(tmp_path / "pki", NOW + timedelta(days=1))
    assert contents(tmp_path / "pki") == before
    assert second.admin_token == first.admin_token
    assert second.signing.kid == first.signing.kid
    assert len(first.admin_token) >= 32


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    prepare(tmp_path / "pki", NOW)
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "pki").iterdir()} == {0o600}


def test_a_certificate_that_is_about_to_expire_is_replaced_and_the_authority_stays(tmp_path: Path) -> None:
    first = prepare(tmp_path, NOW)
    old = first.certificate.read_bytes()
    second = prepare(tmp_path, NOW + SERVING_LIFE - RENEW_BEFORE + timedelta(days=1))
    assert second.certificate.read_bytes() != old
    assert second.authority == first.authority
    assert pki.issued_by(second.certificate.read_bytes(), second.authority)


@pytest.mark.parametrize("cut", ["server.key", "server.crt"])
def test_a_crash_between_the_files_of_a_renewal_is_repaired(tmp_path: Path, cut: str) -> None:
    """One file is of the new pair, the other of the old one."""
    credentials = prepare(tmp_path / "a", NOW)
    other = prepare(tmp_path / "b", NOW)
    (tmp_path / "a" / cut).write_bytes((tmp_path / "b" / cut).read_bytes())
    again = prepare(tmp_path / "a", NOW)
    assert pki.load(again.certificate, again.key)
    assert pki.issued_by(again.certificate.read_bytes(), credentials.authority)
    assert other.authority != credentials.authority


@pytest.mark.parametrize("missing", ["server.key", "server.crt", "ca.crt", "admin.token", "service-accounts.key"])
def test_a_start_that_was_cut_short_is_completed(tmp_path: Path, missing: str) -> None:
    prepare(tmp_path, NOW)
    (tmp_path / missing).unlink()
    again = prepare(tmp_path, NOW)
    pair = pki.load(again.certificate, again.key)
    assert pki.issued_by(pair.certificate, again.authority)
    assert again.admin_token


def test_the_kubeconfig_says_where_and_as_whom(tmp_path: Path) -> None:
    credentials = prepare(tmp_path, NOW)
    config = yaml.safe_load(kubeconfig(credentials, 1234))
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1234"
    assert base64.b64decode(cluster["certificate-authority-data"]) == credentials.authority.certificate
    assert config["users"][0]["user"] == {"token": credentials.admin_token}
    assert config["contexts"][0]["name"] == config["current-context"]
