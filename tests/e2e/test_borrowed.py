"""A lent cluster is used with a token, whatever its owner signs in with, and given back as it was."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .api import Api
from .borrowed import Borrowed
from .control_plane import KUBECTL, ControlPlane

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture
def without_token(control_plane: ControlPlane, tmp_path: Path) -> Path:
    """The plane's own kubeconfig, but the token comes out of an exec plugin."""
    view = [str(KUBECTL), "--kubeconfig", str(control_plane.kubeconfig), "config", "view", "--raw", "-o", "json"]
    config = json.loads(subprocess.run(view, capture_output=True, check=True, timeout=30).stdout)
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": control_plane.admin_token},
    }
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    plugin = {
        "apiVersion": answer["apiVersion"],
        "command": "cat",
        "args": [str(tmp_path / "answer.json")],
        "interactiveMode": "Never",
    }
    for user in config["users"]:
        user["user"] = {"exec": plugin}
    path = tmp_path / "lent"
    path.write_text(json.dumps(config))
    return path


def test_a_context_without_a_token_gets_an_account_for_the_run(
    without_token: Path, admin: Api, namespace: str, tmp_path: Path
) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(without_token)}
    cluster = Borrowed(environ, workdir=tmp_path, account=f"lent-{namespace}")
    try:
        cluster.start()
        api = Api(ControlPlane.from_kubeconfig(cluster.kubeconfig, embedded=False, workdir=tmp_path))
        assert api.get("/api/v1/nodes").code == 200
        me = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
        assert me["username"] == f"system:serviceaccount:lent-{namespace}:lent-{namespace}"
    finally:
        cluster.stop()
    assert admin.get(f"{BINDINGS}/lent-{namespace}").code == 404


def test_a_context_with_a_token_is_used_as_it_is(
    control_plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    several = f"{control_plane.kubeconfig}:{tmp_path / 'none'}"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": several}
    cluster = Borrowed(environ, workdir=tmp_path, account=f"lent-{namespace}")
    cluster.start()
    found = ControlPlane.from_kubeconfig(cluster.kubeconfig, embedded=False, workdir=tmp_path)
    assert (found.url, found.admin_token) == (control_plane.url, control_plane.admin_token)
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
    assert admin.get(f"{BINDINGS}/lent-{namespace}").code == 404
