"""RBAC objects in a few words, and a store that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from ullage.standalone.apiserver.auth.rbac import GROUP, Authorizer
from ullage.standalone.apiserver.auth.users import User

Json = dict[str, Any]


@dataclass
class Entry:
    data: bytes
    decoded: int = 0

    def obj(self) -> Json:
        self.decoded += 1
        found: Json = msgspec.json.decode(self.data)
        return found


@dataclass
class FakeStore:
    """As much of a store as an authorizer reads. `entries` may be inspected."""

    entries: dict[str, dict[tuple[str, str], Entry]] = field(default_factory=dict)
    revision: int = 0
    changes: dict[str, int] = field(default_factory=dict)

    def put(self, obj: Json) -> None:
        storage = f"{obj['kind'].lower()}s.{GROUP}"
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self.entries.setdefault(storage, {})[key] = Entry(msgspec.json.encode(obj))
        self._touch(storage)

    def drop(self, kind: str, namespace: str, name: str) -> None:
        storage = f"{kind.lower()}s.{GROUP}"
        del self.entries[storage][namespace, name]
        self._touch(storage)

    def _touch(self, storage: str) -> None:
        self.revision += 1
        self.changes[storage] = self.revision

    def items(self, storage: str) -> list[Entry]:
        return [entry for _, entry in sorted(self.entries.get(storage, {}).items())]

    def touched(self, storage: str) -> int:
        return self.changes.get(storage, 0)


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Json:
    """Members apart by spaces; `core` is the group without a name."""
    found: Json = {"apiGroups": ["" if group == "core" else group for group in groups.split()]}
    found |= {"resources": resources.split(), "verbs": verbs.split()}
    return {**found, "resourceNames": names.split()} if names else found


def urls(paths: str, verbs: str) -> Json:
    return {"nonResourceURLs": paths.split(), "verbs": verbs.split()}


def role(name: str, *rules: Json, namespace: str = "", **more: Any) -> Json:
    """A Role in a namespace, a ClusterRole in none."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": more.pop("labels", {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules), **more}


def bind(role_kind: str, role_name: str, *subjects: str, namespace: str = "", name: str = "b") -> Json:
    """A subject is `User bob`, `Group dev` or `ServiceAccount ns/name`."""
    found = []
    for subject in subjects:
        kind, _, who = subject.partition(" ")
        if kind == "ServiceAccount":
            home, _, account = who.partition("/")
            found.append({"kind": kind, "namespace": home, "name": account})
        else:
            found.append({"kind": kind, "apiGroup": GROUP, "name": who})
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "subjects": found,
    }


def store_of(*objects: Json) -> FakeStore:
    store = FakeStore()
    for obj in objects:
        store.put(obj)
    return store


def authorizer_of(*objects: Json) -> Authorizer:
    return Authorizer(store_of(*objects))


def user(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, "system:authenticated"))
