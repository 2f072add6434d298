"""Who attacks, what they may reach, and what nobody of them may: a tenant's namespace, and that of another one."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ..api import Api, Json
from ..conftest import wait_served
from ..control_plane import EmbeddedServer
from .client import Address, Client
from .kinds import VESSELS
from .probes import MemoryProbe, Probes, ReadyProbe

MINE: Final = "mine"  # the tenant's namespace
THEIRS: Final = "theirs"  # the other tenant's
EMPTY: Final = "empty"  # home of the account without rights
CANARY: Final = b"kept-from-everybody-else"
ACTORS: Final = ("stranger", "nobody", "tenant")
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Scene:
    server: EmbeddedServer
    admin: Api
    address: Address
    tokens: dict[str, str]  # by actor
    probes: Probes

    def client(self, actor: str) -> Client:
        return Client(self.address, self.tokens[actor])

    def clear(self) -> None:
        """Removes what a tenant has made: an attack begins where the one before it began."""
        for path, kept in CLEARED.items():
            listed = self.admin.get(path).obj["items"]
            for name in {item["metadata"]["name"] for item in listed} - kept:
                if not name.startswith(CROWD):
                    self.admin.call("DELETE", f"{path}/{name}")


CROWD: Final = "small-"  # how the names of objects begin that stay for several attacks
CLEARED: Final[dict[str, set[str]]] = {
    f"/api/v1/namespaces/{MINE}/configmaps": {"target", "kube-root-ca.crt"},
    f"/api/v1/namespaces/{MINE}/secrets": set(),
    f"/api/v1/namespaces/{MINE}/pods": set(),
    f"/api/v1/namespaces/{MINE}/services": set(),
    f"/apis/apps/v1/namespaces/{MINE}/deployments": {"target"},
    f"/apis/hostile.example.com/v1/namespaces/{MINE}/vessels": {"target"},
    f"{RBAC}/namespaces/{MINE}/roles": {"all"},
    f"{RBAC}/namespaces/{MINE}/rolebindings": {"all", "admin", "edit"},
}


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    server = EmbeddedServer(folder / "data")
    server.data_dir.mkdir()
    server.start()
    try:
        plane = server.control_plane()
        admin = Api(plane)
        tokens = _prepare(admin)
        url = urlsplit(plane.url)
        assert url.hostname is not None
        assert url.port is not None
        assert plane.ca_file is not None
        address = Address(url.hostname, url.port, ssl.create_default_context(cafile=plane.ca_file))
        ready, memory = ReadyProbe(url.hostname, url.port, plane.ca_file, server.pid), MemoryProbe(server.pid)
        ready.start()
        try:
            yield Scene(server, admin, address, tokens, Probes(ready, memory, memory.now()))
        finally:
            ready.stop()
    finally:
        server.stop()


def _prepare(admin: Api) -> dict[str, str]:
    """Namespaces, accounts, rights and the canaries; the token of each actor."""
    admin.create(DEFINITIONS, VESSELS)
    for name in (MINE, THEIRS, EMPTY):
        admin.create("/api/v1/namespaces", _named("v1", "Namespace", name))
    wait_served(admin, "/apis/hostile.example.com/v1/vessels")
    for kind, plural in (("Secret", "secrets"), ("ConfigMap", "configmaps")):
        data: Json = {"stringData" if kind == "Secret" else "data": {"canary": CANARY.decode()}}
        admin.create(f"/api/v1/namespaces/{THEIRS}/{plural}", _named("v1", kind, "canary") | data)
    for namespace, name in ((MINE, "tenant"), (EMPTY, "nobody")):
        admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", _named("v1", "ServiceAccount", name))
    _grant_everything(admin)
    _make_targets(admin)
    return {"stranger": "", "nobody": _token(admin, EMPTY, "nobody"), "tenant": _token(admin, MINE, "tenant")}


def _grant_everything(admin: Api) -> None:
    role = _named("rbac.authorization.k8s.io/v1", "Role", "all")
    role["rules"] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    admin.create(f"{RBAC}/namespaces/{MINE}/roles", role)
    for name, kind in (("all", "Role"), ("admin", "ClusterRole"), ("edit", "ClusterRole")):
        binding = _named("rbac.authorization.k8s.io/v1", "RoleBinding", name)
        binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding["subjects"] = [{"kind": "ServiceAccount", "name": "tenant", "namespace": MINE}]
        admin.create(f"{RBAC}/namespaces/{MINE}/rolebindings", binding)


def _make_targets(admin: Api) -> None:
    """What patches and updates of the tenant are aimed at."""
    admin.create(f"/api/v1/namespaces/{MINE}/configmaps", _named("v1", "ConfigMap", "target") | {"data": {"a": "b"}})
    admin.create(f"/apis/apps/v1/namespaces/{MINE}/deployments", deployment("target"))
    vessel = _named("hostile.example.com/v1", "Vessel", "target") | {"spec": {"size": 1}}
    admin.create(f"/apis/hostile.example.com/v1/namespaces/{MINE}/vessels", vessel)


def deployment(name: str) -> Json:
    labels = {"app": "target"}
    spec = {"containers": [{"name": "one", "image": "none"}]}
    body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    return _named("apps/v1", "Deployment", name) | {"spec": body}


def _named(api_version: str, kind: str, name: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _token(admin: Api, namespace: str, name: str) -> str:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    return str(admin.create(path, asked)["status"]["token"])


def world(admin: Api) -> dict[str, bytes]:
    """Every object outside of the tenant's namespace, as it is: nothing of it may change."""
    found: dict[str, bytes] = {}
    for path in _collections(admin):
        for item in admin.get(path).obj["items"]:
            meta: dict[str, Any] = item["metadata"]
            if MINE not in (meta.get("namespace"), meta["name"]):
                found[f"{path}/{meta.get('namespace', '')}/{meta['name']}"] = json.dumps(item, sort_keys=True).encode()
    return found


def _collections(admin: Api) -> Iterator[str]:
    groups = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in admin.get("/apis").obj["groups"]]
    for version in ("/api/v1", *groups):
        for resource in admin.get(version).obj["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                yield f"{version}/{resource['name']}"
