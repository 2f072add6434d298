"""What `ullage webhook --client-ca` and `--client-name` mean, and what is refused before anything is served."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ullage import pki
from ullage.app.commands.options import client_certificates
from ullage.clock import SystemClock
from ullage.errors import BadInput


def test_an_authority_needs_names_and_names_an_authority(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(pki.make_ca("a", now=SystemClock().now(), lifetime=timedelta(days=1)).certificate)
    found = client_certificates(authority, ["apiserver", "other"])
    assert found is not None
    assert found.names == {"apiserver", "other"}
    assert client_certificates(None, []) is None
    with pytest.raises(BadInput, match=r"--client-ca .*: needs a --client-name"):
        client_certificates(authority, [""])
    with pytest.raises(BadInput, match="--client-name apiserver: not allowed without --client-ca"):
        client_certificates(None, ["apiserver"])


@pytest.mark.parametrize("content", [b"", b"no PEM", "é".encode(), None])
def test_a_file_without_certificates_is_refused(tmp_path: Path, content: bytes | None) -> None:
    authority = tmp_path / "ca.crt"
    if content is not None:
        authority.write_bytes(content)
    with pytest.raises(BadInput, match=r"--client-ca .*: certificates in PEM are allowed"):
        client_certificates(authority, ["apiserver"])
