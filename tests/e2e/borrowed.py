"""A cluster that is already there, lent by whoever says `KUBECONFIG=... E2E_CLUSTER=1`.

The suite speaks plain HTTP with a bearer token. A context that signs in otherwise (a client certificate, an exec plugin) gets
a service account of the suite's own, administrator for the length of the run.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .control_plane import KUBECTL

SECONDS = 60


class Borrowed:
    """One kubeconfig file with a token, made from the current context of any."""

    def __init__(self, environ: Mapping[str, str], *, workdir: Path, account: str) -> None:
        self.account = account
        self._environ = dict(environ)
        self.kubeconfig = workdir / "kubeconfig"
        self._has_account = False

    def start(self) -> None:
        if not self._environ.get("KUBECONFIG"):
            raise RuntimeError("E2E_CLUSTER=1 needs KUBECONFIG: no cluster is taken by accident")
        config = json.loads(self._kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        if "token" not in config["users"][0]["user"]:
            config["users"][0]["user"] = {"token": self._account_token()}
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config))

    def stop(self) -> None:
        if self._has_account:
            self._kubectl("delete", "clusterrolebinding", self.account, "--ignore-not-found")
            self._kubectl("delete", "namespace", self.account, "--ignore-not-found", "--wait=false")

    def _account_token(self) -> str:
        self._has_account = True
        items = administrator(self.account)
        self._kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return self._kubectl("create", "token", self.account, "--namespace", self.account, "--duration", "6h").strip()

    def _kubectl(self, *args: str, stdin: str = "") -> str:
        command = [str(KUBECTL), *args]
        done = subprocess.run(
            command, input=stdin, env=self._environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout


def administrator(name: str) -> list[dict[str, Any]]:
    """A service account of that name in a namespace of that name, bound to the role that may do everything."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": name}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}],
        },
    ]
