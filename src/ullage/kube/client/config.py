"""Where the Kubernetes API is and who we are there: from a kubeconfig, or from the pod that we run in.

Everything is checked when it is loaded, so that a mistake in a file is told with the file's own words. Secrets are kept out
of `repr`; files that may change while we run (tokens, certificates) are kept as paths and read when they are needed.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

from ullage.kube.client import exec_plugin, proxy
from ullage.kube.client.exec_plugin import ExecPlugin
from ullage.kube.client.kubeconfig import BadConfig, Choice, ClusterEntry, Exec, Sourced, User, merge, merged, parse
from ullage.kube.read_limits import ReadLimits

# A kubeconfig that somebody else wrote: it says where a cluster is and who we are there, and nothing about our own
# machine. A file may name others and programs to run, and is its owner's; a Secret is written by whoever may write it.
# So a kubeconfig from a Secret holds everything that it needs itself, and whatever would read or run something here is
# refused.


LARGEST: Final = 256 * 1024  # bytes
DEEPEST: Final = 20  # a kubeconfig has about six levels

_FILES: Final = "it names a file of this machine; give its content in {data}"


def choose(text: bytes, where: str) -> Choice:
    """The current context. `where` names the Secret in errors; they never show what is in it."""
    path = Path(where)
    if len(text) > LARGEST:
        raise BadConfig("kubeconfig", where, f"it has {len(text)} bytes, and may have {LARGEST}")
    _refuse_tricks(text, where)
    choice = merged({path: parse(text, path)}).choose()
    cluster, user = choice.cluster, choice.user
    for entry, name, given, problem in (
        (cluster, "certificate-authority", cluster.value.ca_file, _FILES.format(data="certificate-authority-data")),
        (cluster, "insecure-skip-tls-verify", cluster.value.insecure, "whoever is in between could read our credentials"),
        (user, "tokenFile", user.value.token_file, _FILES.format(data="token")),
        (user, "client-certificate", user.value.certificate_file, _FILES.format(data="client-certificate-data")),
        (user, "client-key", user.value.key_file, _FILES.format(data="client-key-data")),
        (user, "exec", user.value.exec, "it names a program of this machine"),
        (user, "auth-provider", user.value.auth_provider, "it names a program of this machine"),
    ):
        if given:
            raise BadConfig(where, f"{entry.where}.{name}", f"not from a Secret: {problem}")
    if not cluster.value.server.startswith("https://"):
        raise cluster.bad("server", "not from a Secret: this must begin with https://")
    return choice


def _refuse_tricks(text: bytes, where: str) -> None:
    """What is small as a text and large once it is read: parts that stand for others, and lists within lists without end."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.AliasEvent):
                raise BadConfig("kubeconfig", where, "anchors and aliases have no place in it")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise BadConfig("kubeconfig", where, "it is nested too deeply")
    except yaml.YAMLError:
        return  # whoever reads it says where


__all__ = ["BadConfig", "Config", "Impersonation"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom we act as, where the server lets us."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One cluster and one identity. Of a value and a file for the same thing, the file wins, as long as it can be read."""

    server: str  # https://host:port, perhaps with a path in front of the API's
    namespace: str = "default"
    context: str = ""  # its name in the kubeconfig
    ca: bytes = b""  # PEM; neither it nor a file: the machine's own authorities
    ca_file: str = ""
    insecure: bool = False
    server_name: str = ""  # what the server's certificate must say, where that is not the host in the URL
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    certificate_file: str = ""
    key: bytes = field(default=b"", repr=False)
    key_file: str = ""
    plugin: ExecPlugin | None = None
    acting_as: Impersonation | None = None
    proxy: str = field(default="", repr=False)  # may hold a password
    compress: bool = True
    limits: ReadLimits | None = None  # of what is taken from it; None: whatever comes

    @classmethod
    def load(
        cls,
        kubeconfig: str | PathLike[str] | None = None,
        context: str | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        otherwise: Callable[[], Path | None] = lambda: None,
    ) -> Self:
        """A named kubeconfig; or the files in KUBECONFIG; or ~/.kube/config; or, where these say nothing, the pod we run in, or
        the kubeconfig that `otherwise` knows of. A KUBECONFIG that leads nowhere is a mistake: nothing else is tried."""
        environ = os.environ if environ is None else environ
        if kubeconfig is not None and not Path(kubeconfig).exists():
            raise BadConfig("kubeconfig", str(kubeconfig), "there is no such file")
        paths = _paths(kubeconfig, environ)
        merged = merge(paths)
        if kubeconfig is None and not (merged.contexts or merged.clusters):
            if not context and in_cluster(environ):
                return cls.in_cluster(environ)
            if not environ.get("KUBECONFIG") and (found := otherwise()) is not None:
                merged = merge([found])
        if not merged.files:
            raise BadConfig(
                "kubeconfig",
                ":".join(map(str, paths)),
                "there is no such file; name one, or set KUBECONFIG, or start `ullage up`",
            )
        return cls._from_choice(merged.choose(context), environ)

    @classmethod
    def foreign(cls, kubeconfig: bytes, *, where: str, environ: Mapping[str, str] | None = None) -> Self:
        """From a kubeconfig that somebody else wrote; it may name nothing of this machine (`py`)."""
        return cls._from_choice(choose(kubeconfig, where), os.environ if environ is None else environ)

    @classmethod
    def in_cluster(cls, environ: Mapping[str, str], directory: Path | None = None) -> Self:
        """The API server that a pod is told of, and the pod's service account."""
        directory = directory or SERVICE_ACCOUNT
        host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise BadConfig("in-cluster config", "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT", "not set: this is no pod")
        for name in ("token", "ca.crt"):
            if not os.access(directory / name, os.R_OK):
                raise BadConfig("in-cluster config", str(directory / name), "cannot be read: is the service account mounted?")
        namespace = directory / "namespace"
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return cls(
            server=server,
            proxy=_environments_proxy(server, environ),
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
            ca_file=str(directory / "ca.crt"),
            token_file=str(directory / "token"),
        )

    @classmethod
    def _from_choice(cls, choice: Choice, environ: Mapping[str, str]) -> Self:
        cluster, user = choice.cluster, choice.user
        server = _server(cluster)
        return cls(
            server=server,
            namespace=choice.namespace or "default",
            context=choice.context,
            insecure=cluster.value.insecure,
            server_name=cluster.value.server_name,
            proxy=_proxy(cluster) or _environments_proxy(server, environ),
            compress=not cluster.value.disable_compression,
            acting_as=_acting_as(user),
            plugin=_plugin(user, cluster),
            **_authority(cluster),
            **_identity(user),
        )


def context_names(kubeconfig: str | PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> list[str]:
    """The contexts that can be chosen, in order."""
    return sorted(merge(_paths(kubeconfig, os.environ if environ is None else environ)).contexts)


def in_cluster(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def _paths(kubeconfig: str | PathLike[str] | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [Path(kubeconfig).absolute()]
    named = [Path(part).absolute() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]


def _server(cluster: Sourced[ClusterEntry]) -> str:
    server = cluster.value.server.rstrip("/")
    try:
        parts = urlsplit(server)
        fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise cluster.bad("server", "this must be a URL such as https://host:6443")
    if parts.username is not None or parts.query or parts.fragment:
        raise cluster.bad("server", "credentials, ? and # have no place in this URL")
    return server


def _proxy(cluster: Sourced[ClusterEntry]) -> str:
    url = cluster.value.proxy_url
    if url and urlsplit(url).scheme not in {"http", "https"}:
        raise cluster.bad("proxy-url", "only http:// and https:// proxies are supported")
    return url


def _environments_proxy(server: str, environ: Mapping[str, str]) -> str:
    url = proxy.from_environment(server, environ)
    if url and urlsplit(url).scheme not in {"http", "https"}:
        raise BadConfig("environment", "HTTPS_PROXY", "only http:// and https:// proxies are supported")
    return url


def _authority(cluster: Sourced[ClusterEntry]) -> dict[str, Any]:
    name, value = "certificate-authority", cluster.value
    if value.ca_file and value.ca_data:
        raise cluster.bad(f"{name}-data", f"{name} is given too; only one of them is allowed")
    if value.insecure and (value.ca_file or value.ca_data):
        raise cluster.bad("insecure-skip-tls-verify", f"{name} is given too; what is not verified needs none")
    return {"ca": cluster.decoded(f"{name}-data", value.ca_data), "ca_file": cluster.path(name, value.ca_file)}


def _identity(user: Sourced[User]) -> dict[str, Any]:
    value = user.value
    for name, file, data in (
        ("client-certificate", value.certificate_file, value.certificate_data),
        ("client-key", value.key_file, value.key_data),
    ):
        if file and data:
            raise user.bad(f"{name}-data", f"{name} is given too; only one of them is allowed")
    has_certificate, has_key = value.certificate_file or value.certificate_data, value.key_file or value.key_data
    if bool(has_certificate) != bool(has_key):
        missing = "client-key" if has_certificate else "client-certificate"
        raise user.bad(missing, f"missing: a client certificate and its key go together (or {missing}-data)")
    if (value.token or value.token_file) and value.username:
        raise user.bad("username", "a token is given too; only one way to log in is allowed")
    if value.auth_provider is not None:
        raise user.bad("auth-provider", "Kubernetes dropped this in 1.26; use an exec plugin")
    return {
        "token": value.token,
        "token_file": user.path("tokenFile", value.token_file),
        "username": value.username,
        "password": value.password,
        "certificate": user.decoded("client-certificate-data", value.certificate_data),
        "certificate_file": user.path("client-certificate", value.certificate_file),
        "key": user.decoded("client-key-data", value.key_data),
        "key_file": user.path("client-key", value.key_file),
    }


def _acting_as(user: Sourced[User]) -> Impersonation | None:
    value = user.value
    if not value.act_as:
        if value.act_as_uid or value.act_as_groups or value.act_as_extra:
            raise user.bad("as", "missing: groups, a uid or extras can only be taken on together with a user")
        return None
    extra = {key: tuple(values) for key, values in value.act_as_extra.items()}
    return Impersonation(value.act_as, value.act_as_uid, tuple(value.act_as_groups), extra)


def _plugin(user: Sourced[User], cluster: Sourced[ClusterEntry]) -> ExecPlugin | None:
    given = user.value.exec
    if given is None:
        return None
    if not given.command:
        raise user.bad("exec.command", "missing: the program that prints the credential")
    if given.api_version not in exec_plugin.VERSIONS:
        raise user.bad("exec.apiVersion", f"must be one of {', '.join(exec_plugin.VERSIONS)}")
    mode = given.interactive_mode or ("IfAvailable" if given.api_version.endswith("beta1") else "")
    if mode not in exec_plugin.MODES:
        raise user.bad("exec.interactiveMode", f"must be one of {', '.join(exec_plugin.MODES)}")
    return ExecPlugin(
        where=f"{user.file} {user.where}.exec",
        api_version=given.api_version,
        command=given.command,
        args=tuple(given.args),
        env=tuple((variable.name, variable.value) for variable in given.env),
        interactive_mode=mode,
        install_hint=given.install_hint,
        directory=user.file.parent,
        cluster=_cluster_info(cluster, given),
    )


def _cluster_info(cluster: Sourced[ClusterEntry], given: Exec) -> Mapping[str, Any] | None:
    """What a plugin that asks for it is told about the cluster, in the plugin protocol's own names."""
    if not given.provide_cluster_info:
        return None
    value = cluster.value
    data = value.ca_data
    if value.ca_file:
        data = b64encode(Path(cluster.path("certificate-authority", value.ca_file)).read_bytes()).decode()
    config = next((extension.extension for extension in value.extensions if extension.name == EXEC_EXTENSION), None)
    info = {
        "server": value.server,
        "tls-server-name": value.server_name,
        "insecure-skip-tls-verify": value.insecure,
        "certificate-authority-data": data,
        "proxy-url": value.proxy_url,
        "config": config,
    }
    return {key: item for key, item in info.items() if item not in ("", False)}
