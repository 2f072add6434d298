"""What the options of `ullage api` mean, and what is refused before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.app.commands.api import names_of, tls_files
from ullage.errors import BadInput

HERE = ("localhost", "127.0.0.1")


@pytest.mark.parametrize(
    ("bind", "service", "further", "names"),
    [
        pytest.param("127.0.0.1", None, [], HERE, id="on one machine"),
        pytest.param("0.0.0.0", None, [], HERE, id="all addresses are no name"),
        pytest.param("::", None, ["api.example.com"], (*HERE, "api.example.com"), id="a name of its own"),
        pytest.param("10.0.0.7", None, ["10.0.0.7"], (*HERE, "10.0.0.7"), id="once is enough"),
        pytest.param(
            "0.0.0.0",
            "ullage-system/api",
            [],
            (*HERE, "api.ullage-system.svc", "api.ullage-system.svc.cluster.local", "api.ullage-system"),
            id="behind a Service",
        ),
    ],
)
def test_a_certificate_is_for_every_name_that_it_is_called_by(
    bind: str, service: str | None, further: list[str], names: tuple[str, ...]
) -> None:
    assert names_of(bind, service, further) == names


@pytest.mark.parametrize("name", ["", "a b", "https://a", "*.a", "a" * 254])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=r"a name such as api\.example\.com, or an address, is allowed"):
        names_of("127.0.0.1", None, [name])


def test_a_service_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="NAMESPACE/NAME or NAMESPACE/NAME:PORT is allowed"):
        names_of("127.0.0.1", "api", [])


def test_a_certificate_and_its_key_go_together() -> None:
    assert tls_files(None, None) is None
    found = tls_files(Path("a.crt"), Path("a.key"))
    assert found is not None
    assert (found.certificate, found.key) == (Path("a.crt"), Path("a.key"))
    with pytest.raises(BadInput, match=r"--tls-key \(absent\): goes with a.crt: both are needed, or neither"):
        tls_files(Path("a.crt"), None)
    with pytest.raises(BadInput, match=r"--tls-certificate \(absent\): goes with a.key"):
        tls_files(None, Path("a.key"))
