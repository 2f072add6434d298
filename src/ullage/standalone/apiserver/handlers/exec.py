"""`pods/exec`: where the kubelet of a pod's node is, and what it is asked for.

Who asks has shown that they may, and admission webhooks that want to see such connections are asked. The rest is the kubelet's:
the connection is handed through to it, from its answer to the upgrade on (`http/tunnel.py`). It is reached on this machine
only, with a client certificate of ours, and is known by the certificate whose digest its Node has: nobody else can answer in
its place.
"""

from __future__ import annotations

import ipaddress
import ssl
from typing import Final
from urllib.parse import quote, urlencode

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.webhooks.dispatch import Webhooks
from ullage.standalone.apiserver.auth.rbac import Authorizer, denied
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.handlers.reads import Reader
from ullage.standalone.apiserver.handlers.subresources import NOTHING_RUNS
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.answers import Tunnel
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import ApiError, bad_request
from ullage.standalone.apiserver.storage.store import Store

# On a Node: the SHA-256 of its kubelet's certificate, in hex.
FINGERPRINT: Final = "ullage.io/kubelet-certificate"
_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
)  # a token may stand among those that are asked for: it stays here
_WEBSOCKET: Final = ("sec-websocket-key", "sec-websocket-version")
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}  # as kubelets call them
_TRUE: Final = ("true", "1")


class Exec:
    def __init__(
        self, store: Store, *, reader: Reader, webhooks: Webhooks, authorizer: Authorizer, context: ssl.SSLContext | None
    ) -> None:
        self._store = store
        self._reader = reader
        self._webhooks = webhooks
        self._authorizer = authorizer
        self._context = context

    async def open(self, request: Request, resource: Resource, user: User) -> Tunnel:
        target = request.target
        self._check_create(request, user)
        live = self._reader.find(resource, target.namespace, target.name).obj()
        container = _container(live, request.param("container"))
        node = dig(live, "spec", "nodeName")
        if not node:
            raise bad_request(f"pod {target.name} does not have a host assigned: {NOTHING_RUNS}")
        command = request.query.get("command", ())
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        await self._admit(request, resource, user, container=container)
        host, port, fingerprint = self._kubelet(target.name, str(node))
        headers = _upgrade(request)
        asked = [("command", word) for word in command]
        asked += [(theirs, "1") for ours, theirs in _STREAMS.items() if request.param(ours) in _TRUE]
        path = "/".join(quote(part, safe="") for part in ("exec", target.namespace, target.name, container))
        if self._context is None:
            raise bad_request(f"pod {target.name} cannot be reached: {NOTHING_RUNS}")
        return Tunnel(host, port, f"/{path}?{urlencode(asked)}", headers, self._context, fingerprint, user.name)

    def _check_create(self, request: Request, user: User) -> None:
        """A WebSocket can only be asked for with GET. Whoever may merely read is not to run anything."""
        target = request.target
        asked = AccessAttributes(
            verb="create",
            group=target.group,
            version=target.version,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
        )
        decision = self._authorizer.authorize(user, asked)
        if not decision.allowed:
            raise denied(user, asked, decision)

    async def _admit(self, request: Request, resource: Resource, user: User, *, container: str) -> None:
        target = request.target
        options: Json = {"kind": "PodExecOptions", "apiVersion": "v1", "container": container}
        options["command"] = list(request.query.get("command", ()))
        options |= {name: True for name in _STREAMS if request.param(name) in _TRUE}
        attrs = Attributes(
            operation="CONNECT",
            resource=resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
            object=options,
            old=None,
            options={},
            user=user,
        )
        request.warnings += await self._webhooks.mutate(attrs)
        if attrs.object != options:
            raise ApiError(
                500, "InternalError", "a mutating webhook changed the options of an exec, which is not supported here"
            )
        request.warnings += await self._webhooks.validate(attrs)

    def _kubelet(self, pod: str, name: str) -> tuple[str, int, str]:
        entry = self._store.get("nodes", "", name)
        node = entry.obj() if entry else {}
        port = dig(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port")
        fingerprint = dig(node, "metadata", "annotations", FINGERPRINT)
        addresses = dig(node, "status", "addresses") or ()
        found = next((one.get("address") for one in addresses if one.get("type") == "InternalIP"), "")
        if not (isinstance(port, int) and port and found and fingerprint):
            raise bad_request(f"pod {pod} cannot be reached: {NOTHING_RUNS}")
        try:
            local = ipaddress.ip_address(found).is_loopback
        except ValueError:
            local = False
        if not local:
            raise bad_request(f"pod {pod} cannot be reached: node {name} is at {found}, which is not this machine")
        return str(found), port, str(fingerprint)


def _container(pod: Json, wanted: str) -> str:
    names = [str(one.get("name", "")) for one in dig(pod, "spec", "containers") or ()]
    init = [str(one.get("name", "")) for one in dig(pod, "spec", "initContainers") or ()]
    name = dig(pod, "metadata", "name")
    if wanted:
        if wanted not in (*names, *init):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names) != 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    return names[0]


def _upgrade(request: Request) -> tuple[tuple[str, str], ...]:
    """The headers that the kubelet gets: those of the WebSocket, and none that tells who asks."""
    headers = request.headers
    if headers.get("upgrade", "").lower() != "websocket" or request.method != "GET":
        raise bad_request("Upgrade request required: this server passes on WebSockets only, which begin with GET")
    asked = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    protocols = [one for one in asked if one in _PROTOCOLS]
    if not protocols:
        raise bad_request(f"unable to upgrade: subprotocols {', '.join(_PROTOCOLS)} are supported")
    kept = [(name, headers[name]) for name in _WEBSOCKET if name in headers]
    return (("connection", "Upgrade"), ("upgrade", "websocket"), *kept, ("sec-websocket-protocol", ", ".join(protocols)))
