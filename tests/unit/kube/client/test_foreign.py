"""Kubeconfigs from Secrets: what somebody else may say about where a cluster is, and what he may not."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from ullage.kube.client.config import BadConfig, Config

WHERE = "secret team/far-kubeconfig"
HIDDEN = "hunter2"


def kubeconfig(*, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **rest: Any) -> bytes:
    given = {
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://far.example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": HIDDEN} if user is None else user}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
    }
    return yaml.safe_dump(given | rest).encode()


def test_a_kubeconfig_that_holds_all_that_it_needs_is_used() -> None:
    authority = base64.b64encode(b"PEM").decode()
    found = Config.foreign(kubeconfig(cluster={"certificate-authority-data": authority}), where=WHERE, environ={})
    assert (found.server, found.ca, found.token) == ("https://far.example.com:6443", b"PEM", HIDDEN)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        pytest.param(
            kubeconfig(cluster={"certificate-authority": "/etc/passwd"}), "certificate-authority", id="a file with an authority"
        ),
        pytest.param(
            kubeconfig(cluster={"insecure-skip-tls-verify": True}), "insecure-skip-tls-verify", id="a server that nobody checks"
        ),
        pytest.param(kubeconfig(cluster={"server": "http://far.example.com"}), "server", id="a server without TLS"),
        pytest.param(kubeconfig(cluster={"server": "file:///etc/passwd"}), "server", id="a server that is a file"),
        pytest.param(kubeconfig(user={"tokenFile": "/var/run/secrets/token"}), "tokenFile", id="our own token"),
        pytest.param(
            kubeconfig(user={"client-certificate": "a", "client-key-data": "eA=="}), "client-certificate", id="a certificate"
        ),
        pytest.param(kubeconfig(user={"client-certificate-data": "eA==", "client-key": "a"}), "client-key", id="a key"),
        pytest.param(
            kubeconfig(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}),
            "exec",
            id="a program",
        ),
        pytest.param(kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider", id="a program of former times"),
    ],
)
def test_what_names_something_of_this_machine_is_refused_with_its_field(given: bytes, field: str) -> None:
    with pytest.raises(BadConfig, match=rf"\.{field}: not from a Secret: ") as caught:
        Config.foreign(given, where=WHERE, environ={})
    assert str(caught.value).startswith(f"{WHERE} ")


def test_a_relative_path_does_not_find_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("ours")
    with pytest.raises(BadConfig, match="tokenFile: not from a Secret"):
        Config.foreign(kubeconfig(user={"tokenFile": "token"}), where=WHERE, environ={})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(b"x" * (256 * 1024 + 1), "it has 262145 bytes, and may have 262144", id="too large"),
        pytest.param(b"a: &a [x]\nb: [*a, *a]", "anchors and aliases have no place in it", id="parts that stand for others"),
        pytest.param(b"[" * 5000, "it is nested too deeply", id="lists within lists"),
        pytest.param(f"users: [{HIDDEN}".encode(), "no valid YAML at line 2", id="no YAML"),
        pytest.param(b"a: " + b"9" * 5000, "no valid YAML", id="a number that there cannot be"),
        pytest.param(f"users: {HIDDEN}".encode(), "Expected `array`, got `str`", id="something else"),
        pytest.param(b"", "no context is chosen; there are none", id="nothing"),
        pytest.param(b"\xff\xfe\x00", "no valid YAML", id="no text"),
        pytest.param(
            kubeconfig(user={"client-certificate-data": HIDDEN + "!", "client-key-data": "eA=="}),
            "this is not base64",
            id="data that is no base64",
        ),
    ],
)
def test_what_is_no_kubeconfig_is_told_without_what_is_in_it(given: bytes, problem: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Config.foreign(given, where=WHERE, environ={})
    assert problem in str(caught.value)
    assert WHERE in str(caught.value)
    assert HIDDEN not in str(caught.value)
    assert caught.value.__cause__ is None or HIDDEN not in str(caught.value.__cause__)
