"""Kubeconfig files: read, merge, and choose one context, as kubectl does.

Files named first win: an entry (a cluster, a user, a context) is taken whole from the first file that has its name, and
`current-context` from the first that sets it. Errors name the file and the field; they never show a value, which may be
a secret.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml
from msgspec import field

from ullage.errors import BadInput
from ullage.kube.kinds import without_nulls

E = TypeVar("E")


class BadConfig(BadInput):
    """A kubeconfig, or the surroundings of a pod, that cannot be used: file, field, and what is wrong."""


class Extension(msgspec.Struct):
    name: str
    extension: Any = None


class ClusterEntry(msgspec.Struct):
    server: str = ""
    server_name: str = field(name="tls-server-name", default="")
    insecure: bool = field(name="insecure-skip-tls-verify", default=False)
    ca_file: str = field(name="certificate-authority", default="")
    ca_data: str = field(name="certificate-authority-data", default="")
    proxy_url: str = field(name="proxy-url", default="")
    disable_compression: bool = field(name="disable-compression", default=False)
    extensions: list[Extension] = []


class EnvVar(msgspec.Struct):
    name: str
    value: str = ""


class Exec(msgspec.Struct):
    api_version: str = field(name="apiVersion", default="")
    command: str = ""
    args: list[str] = []
    env: list[EnvVar] = []
    install_hint: str = field(name="installHint", default="")
    provide_cluster_info: bool = field(name="provideClusterInfo", default=False)
    interactive_mode: str = field(name="interactiveMode", default="")


class User(msgspec.Struct):
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    certificate_file: str = field(name="client-certificate", default="")
    certificate_data: str = field(name="client-certificate-data", default="")
    key_file: str = field(name="client-key", default="")
    key_data: str = field(name="client-key-data", default="")
    username: str = ""
    password: str = ""
    act_as: str = field(name="as", default="")
    act_as_uid: str = field(name="as-uid", default="")
    act_as_groups: list[str] = field(name="as-groups", default=[])
    act_as_extra: dict[str, list[str]] = field(name="as-user-extra", default={})
    exec: Exec | None = None
    auth_provider: Any = field(name="auth-provider", default=None)


class Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry = field(default_factory=ClusterEntry)


class NamedUser(msgspec.Struct):
    name: str
    user: User = field(default_factory=User)


class NamedContext(msgspec.Struct):
    name: str
    context: Context = field(default_factory=Context)


class File(msgspec.Struct):
    current_context: str = field(name="current-context", default="")
    clusters: list[NamedCluster] = []
    users: list[NamedUser] = []
    contexts: list[NamedContext] = []


@dataclass(frozen=True, slots=True)
class Sourced(Generic[E]):
    """An entry, with the file that it came from: relative paths in it start there, and errors name it."""

    value: E
    file: Path
    where: str  # `users[admin].user`

    def bad(self, name: str, problem: str) -> BadConfig:
        return BadConfig(str(self.file), f"{self.where}.{name}", problem)

    def decoded(self, name: str, data: str) -> bytes:
        """The content of a `…-data` field."""
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.bad(name, "this is not base64") from None

    def path(self, name: str, value: str) -> str:
        """A file that the entry names; it must be there now, though it may change later."""
        if not value:
            return ""
        path = self.file.parent / Path(value).expanduser() if value.startswith("~") else self.file.parent / value
        if not os.access(path, os.R_OK) or not path.is_file():
            raise self.bad(name, f"there is no file {path} that can be read")
        return str(path)


@dataclass(frozen=True, slots=True)
class Choice:
    """One context, followed to its cluster and its user."""

    context: str
    namespace: str
    cluster: Sourced[ClusterEntry]
    user: Sourced[User]


@dataclass(frozen=True, slots=True)
class Merged:
    files: tuple[Path, ...]
    current_context: str
    clusters: Mapping[str, Sourced[ClusterEntry]]
    users: Mapping[str, Sourced[User]]
    contexts: Mapping[str, Sourced[Context]]

    def choose(self, name: str | None = None) -> Choice:
        """The context of that name, or the current one."""
        files = ":".join(map(str, self.files))
        wanted = name or self.current_context
        if not wanted:
            raise BadConfig(files, "current-context", f"no context is chosen; there are {_names(self.contexts)}")
        context = self.contexts.get(wanted)
        if context is None:
            raise BadConfig(files, f"context {wanted}", f"there is none of this name; there are {_names(self.contexts)}")
        cluster = self.clusters.get(context.value.cluster)
        if cluster is None:
            raise context.bad("cluster", f"there is no cluster {context.value.cluster!r}; there are {_names(self.clusters)}")
        user = self.users.get(context.value.user)
        if user is None:
            if context.value.user:
                raise context.bad("user", f"there is no user {context.value.user!r}; there are {_names(self.users)}")
            user = Sourced(User(), context.file, "users[].user")  # a context without a user is an anonymous one
        return Choice(wanted, context.value.namespace, cluster, user)


def read(path: Path) -> File:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadConfig("kubeconfig", str(path), error.strerror or "cannot be read") from error
    return parse(text, path)


def parse(text: bytes, path: Path) -> File:
    """What is in a file; `path` is named in errors."""
    try:
        content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:  # its text shows the line that is wrong, which may be a token
        mark = getattr(error, "problem_mark", None)
        raise BadConfig("kubeconfig", str(path), "no valid YAML" + (f" at line {mark.line + 1}" if mark else "")) from None
    except ValueError:  # of a number or a date that there cannot be
        raise BadConfig("kubeconfig", str(path), "no valid YAML") from None
    try:
        file = msgspec.convert(without_nulls(content or {}), File)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise BadConfig(str(path), place.strip(".`") or "(the file)", problem) from None
    _refuse_twins(path, "clusters", [entry.name for entry in file.clusters])
    _refuse_twins(path, "users", [entry.name for entry in file.users])
    _refuse_twins(path, "contexts", [entry.name for entry in file.contexts])
    return file


def merge(paths: Sequence[Path]) -> Merged:
    """All files as one. Those that do not exist are left out, since a list in KUBECONFIG may name some to come."""
    return merged({path: read(path) for path in dict.fromkeys(paths) if path.exists()})


def merged(files: Mapping[Path, File]) -> Merged:
    clusters: dict[str, Sourced[ClusterEntry]] = {}
    users: dict[str, Sourced[User]] = {}
    contexts: dict[str, Sourced[Context]] = {}
    current = ""
    for path, file in files.items():
        current = current or file.current_context
        for c in file.clusters:
            clusters.setdefault(c.name, Sourced(c.cluster, path, f"clusters[{c.name}].cluster"))
        for u in file.users:
            users.setdefault(u.name, Sourced(u.user, path, f"users[{u.name}].user"))
        for x in file.contexts:
            contexts.setdefault(x.name, Sourced(x.context, path, f"contexts[{x.name}].context"))
    return Merged(tuple(files), current, clusters, users, contexts)


def _refuse_twins(path: Path, place: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadConfig(str(path), f"{place}[{name}]", "two entries have this name")


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"
