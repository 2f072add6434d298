"""Subresources that are not just a part of their object: scale, tokens, evictions, bindings, and streams that nobody serves."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

from ullage.standalone.apiserver.auth.token_requests import Issuing
from ullage.standalone.apiserver.auth.token_requests import answer as answer_token
from ullage.standalone.apiserver.auth.tokens import SigningKey
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.codec.protobuf import Expected
from ullage.standalone.apiserver.fields.patch.json_patch import json_patch
from ullage.standalone.apiserver.fields.patch.media_types import JSON_PATCH, MERGE_PATCH, STRATEGIC
from ullage.standalone.apiserver.fields.patch.merge import merge_patch
from ullage.standalone.apiserver.handlers.calls import Call, Source
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.handlers.reads import Reader, virtual_answer, wanted
from ullage.standalone.apiserver.handlers.scale import check_scale, scale_of, scaled
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.builtin import CONNECT
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.limits.threads import offload
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.answers import Answer, json_answer
from ullage.standalone.apiserver.request.decoding import accept_sent, check_shape, check_type
from ullage.standalone.apiserver.request.delete_options import checked_options
from ullage.standalone.apiserver.request.request import Request, decode_json
from ullage.standalone.apiserver.request.write_options import write_options
from ullage.standalone.apiserver.status import ApiError, bad_request, conflict, unsupported_media_type
from ullage.standalone.apiserver.storage.store import Store

_SCALE = Expected("autoscaling/v1", "Scale")
_SCALE_KIND = Resource("autoscaling", "v1", "scales", "scale", "Scale", namespaced=True)
_TOKEN_REQUEST = Expected("authentication.k8s.io/v1", "TokenRequest")
_EVICTION = Expected("policy/v1", "Eviction")
_BINDING = Expected("v1", "Binding")

NOTHING_RUNS = "nothing runs here, since this API server has no kubelets"
_DONE: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
BINDINGS = "bindings"  # the older address of `pods/binding`: it names the pod in its body
SPECIAL = frozenset({"scale", "token", "eviction", "binding"}) | CONNECT


class Subresources:
    def __init__(
        self,
        store: Store,
        *,
        registry: Registry,
        reader: Reader,
        writer: Writer,
        deleter: Deleter,
        key: SigningKey,
        source: Source,
    ) -> None:
        self._store = store
        self._registry = registry
        self._reader = reader
        self._writer = writer
        self._deleter = deleter
        self._key = key
        self._source = source

    async def answer(self, request: Request, resource: Resource, user: User) -> Answer:
        if resource.group_resource == BINDINGS:
            return await self._bind(request, user)
        match request.target.subresource:
            case "scale":
                return await self._scale(request, resource, user)
            case "token":
                return await self._token(request, resource)
            case "eviction":
                return await self._evict(request, resource, user)
            case "binding":
                return await self._bind(request, user)
        return self._connect(request, resource)

    async def _scale(self, request: Request, resource: Resource, user: User) -> Answer:
        target = request.target
        if request.verb == "get":
            entry = self._reader.find(resource, target.namespace, target.name)
            return json_answer(scale_of(resource, view(resource).obj(entry.data, entry.rv)))
        kind = "UpdateOptions" if request.verb == "update" else "PatchOptions"
        call = Call(user, write_options(request, kind), kind, subresource="scale", warnings=request.warnings)
        wanted = await self._wanted_scale(request)

        def change(live: Json) -> Json:
            scale = check_scale(wanted(scale_of(resource, live)), target.name)
            check_shape(scale, _SCALE)
            return deepcopy(scaled(resource, live, scale))

        done = await self._writer.modify(resource, change, call, namespace=target.namespace, name=target.name)
        return json_answer(scale_of(resource, view(resource).obj(done.entry.data, done.entry.rv)))

    async def _wanted_scale(self, request: Request) -> Callable[[Json], Json]:
        """The Scale that is asked for, as a function of the present one."""
        if request.verb == "update":
            body = await accept_sent(request, _SCALE)
            check_type(body, _SCALE_KIND, self._registry)
            return lambda _: body
        patch = await offload(len(request.body), partial(decode_json, request.body))
        if request.media_type == JSON_PATCH:
            return lambda scale: json_patch(scale, patch)
        if request.media_type in (MERGE_PATCH, STRATEGIC) and isinstance(patch, dict):
            return lambda scale: merge_patch(scale, patch)
        raise unsupported_media_type([JSON_PATCH, MERGE_PATCH, STRATEGIC])

    async def _token(self, request: Request, resource: Resource) -> Answer:
        want, target = wanted(request, resource, virtual=True), request.target
        asked = await accept_sent(request, _TOKEN_REQUEST)
        found = answer_token(
            asked,
            namespace=target.namespace,
            name=target.name,
            key=self._key,
            lookup=self.lookup,
            issuing=Issuing(self._source.now(), self._source.new_uid()),
        )
        return virtual_answer(found, want)

    def lookup(self, storage: str, namespace: str, name: str) -> Json | None:
        """An object by name, for whoever has to know whether it still exists."""
        entry = self._store.get(storage, namespace, name)
        return entry.obj() if entry else None

    async def _evict(self, request: Request, resource: Resource, user: User) -> Answer:
        """An eviction is a delete; there are no disruption budgets to ask, since nothing here counts healthy pods."""
        want = wanted(request, resource, virtual=True)
        body = await accept_sent(request, _EVICTION)
        target = request.target
        _check_name(body, request, "Eviction")
        asked = checked_options(body.get("deleteOptions") or {})
        if write_options(request, "CreateOptions").dry_run:
            asked = replace(asked, dry_run=True)
        await self._deleter.remove(resource, target.namespace, target.name, options=asked, user=user, warnings=request.warnings)
        return virtual_answer(_DONE, want)

    async def _bind(self, request: Request, user: User) -> Answer:
        """The scheduler's word: this pod runs on that node."""
        pods = self._registry.need("", "v1", "pods")
        want = wanted(request, pods, virtual=True)
        body = await accept_sent(request, _BINDING)
        node, target = dig(body, "target", "name"), request.target
        if target.subresource:
            _check_name(body, request, "Binding")
        name = target.name or dig(body, "metadata", "name")
        if not name or not node:
            raise bad_request(f"{'target' if name else 'metadata'}.name: Required value")
        if dig(body, "metadata", "namespace") not in (None, "", target.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

        def change(live: Json) -> Json:
            if live["metadata"].get("deletionTimestamp"):
                detail = f"pod {name} is being deleted, cannot be assigned to a host"
                raise conflict("", "pods/binding", name, detail)
            assigned = dig(live, "spec", "nodeName")
            if assigned:
                raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{assigned}"')
            new = deepcopy(live)
            new["spec"]["nodeName"] = node
            return new

        kind = "CreateOptions"
        call = Call(user, write_options(request, kind), kind, subresource="binding", warnings=request.warnings)
        await self._writer.modify(pods, change, call, namespace=target.namespace, name=name)
        return virtual_answer(_DONE, want)

    def _connect(self, request: Request, resource: Resource) -> Answer:
        """Streams to a kubelet that does not exist: whoever asks for one is told so."""
        name, kind = request.target.name, request.target.subresource
        live = self._reader.find(resource, request.target.namespace, name).obj()
        if resource.group_resource != "pods":
            raise ApiError(503, "ServiceUnavailable", f"{resource.singular} {name} cannot be reached: {NOTHING_RUNS}")
        if kind == "proxy":
            raise bad_request(f"address not allowed: {NOTHING_RUNS}")
        if kind == "log":
            # Not a bad request: on that, `kubectl logs -f` asks again and again.
            raise ApiError(405, "MethodNotAllowed", f"pod {name} has no log: {NOTHING_RUNS}")
        fault = "cannot be reached" if dig(live, "spec", "nodeName") else "does not have a host assigned"
        raise bad_request(f"pod {name} {fault}: {NOTHING_RUNS}")


def _check_name(body: Json, request: Request, kind: str) -> None:
    name = dig(body, "metadata", "name")
    if name and name != request.target.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
