"""create, update and patch, as HTTP asks for them: what the body means, and which pipeline it goes through."""

from __future__ import annotations

from copy import deepcopy

from ullage.standalone.apiserver.accept import accept_body, accept_fields, check_type
from ullage.standalone.apiserver.answers import Answer
from ullage.standalone.apiserver.apply.merge import apply
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.options import WriteOptions, write_options
from ullage.standalone.apiserver.patch.json_patch import json_patch
from ullage.standalone.apiserver.patch.merge import merge_patch
from ullage.standalone.apiserver.patch.strategic import strategic_merge
from ullage.standalone.apiserver.reads import Reader
from ullage.standalone.apiserver.request import Request, decode_json, decode_yaml
from ullage.standalone.apiserver.resources import Registry, Resource
from ullage.standalone.apiserver.status import (
    ApiError,
    FieldError,
    Json,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    required,
    unsupported_media_type,
)
from ullage.standalone.apiserver.store import Store
from ullage.standalone.apiserver.tables.negotiate import negotiate
from ullage.standalone.apiserver.views import rfc3339
from ullage.standalone.apiserver.writes import Call, Change, Source, Writer, Written, shape_of

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

# A PUT to a name that does not exist creates it.
_CREATED_BY_UPDATE = frozenset(
    {
        "endpoints",
        "events",
        "events.events.k8s.io",
        "limitranges",
        "services",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "leases.coordination.k8s.io",
        "runtimeclasses.node.k8s.io",
    }
)
# Kinds beside the custom ones whose update must name the version it replaces.
_CONDITIONAL = frozenset({"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"})


class Editor:
    def __init__(self, store: Store, *, registry: Registry, writer: Writer, reader: Reader, source: Source) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._reader = reader
        self._source = source

    async def create(self, request: Request, resource: Resource, user: User) -> Answer:
        options = write_options(request, "CreateOptions")
        obj = accept_body(request, resource, self._registry)
        accept_fields(obj, resource, options, request.warnings)
        call = Call(user, options, "CreateOptions", warnings=request.warnings)
        done = await self._writer.insert(resource, obj, call, namespace=request.target.namespace)
        return self._answer(request, resource, done)

    async def update(self, request: Request, resource: Resource, user: User) -> Answer:
        options = write_options(request, "UpdateOptions")
        obj = accept_body(request, resource, self._registry)
        accept_fields(obj, resource, options, request.warnings)
        target = request.target
        self._check_name(obj, request)
        call = Call(user, options, "UpdateOptions", subresource=target.subresource, warnings=request.warnings)
        where = target.namespace if resource.namespaced else ""
        if self._store.head(resource.storage, where, target.name) is None and self._may_create(resource, target.subresource):
            obj["metadata"].pop("resourceVersion", None)
            done = await self._writer.insert(resource, obj, call, namespace=target.namespace)
            return self._answer(request, resource, done)
        if not obj["metadata"].get("resourceVersion") and (
            resource.custom is not None or resource.group_resource in _CONDITIONAL
        ):
            self._reader.find(resource, target.namespace, target.name)
            fault = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise _invalid_by_resource(resource, target.name, fault)
        insist = bool(obj["metadata"].get("resourceVersion"))
        done = await self._writer.modify(
            resource, lambda live: deepcopy(obj), call, namespace=target.namespace, name=target.name, insist=insist
        )
        return self._answer(request, resource, done)

    def _may_create(self, resource: Resource, subresource: str) -> bool:
        return not subresource and resource.group_resource in _CREATED_BY_UPDATE

    def _check_name(self, obj: Json, request: Request) -> None:
        name = obj["metadata"].get("name")
        if not name:
            raise bad_request("the name of the object (based on URL) was undeterminable: name must be provided")
        if name != request.target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.target.name})")

    async def patch(self, request: Request, resource: Resource, user: User) -> Answer:
        options = write_options(request, "PatchOptions")
        target = request.target
        media = request.media_type
        call = Call(user, options, "PatchOptions", subresource=target.subresource, warnings=request.warnings)
        if media == APPLY:
            return await self._apply(request, resource, call)
        if options.force is not None:
            fault = forbidden_field("force", "may not be specified for non-apply patch")
            raise invalid("meta.k8s.io", "PatchOptions", "", [fault])
        change = self._change(request, resource, options)
        done = await self._writer.modify(resource, change, call, namespace=target.namespace, name=target.name)
        return self._answer(request, resource, done)

    def _change(self, request: Request, resource: Resource, options: WriteOptions) -> Change:
        """The patch as a function of the live object."""
        body, media = request.body, request.media_type
        if media == JSON_PATCH:
            operations = _patch_body(body)
            raw: Change = lambda live: json_patch(live, operations)  # noqa: E731  # three of a kind, side by side
        elif media == MERGE_PATCH:
            patch = _patch_object(body)
            raw = lambda live: merge_patch(live, patch)  # noqa: E731
        elif media == STRATEGIC and resource.custom is None:
            patch = _patch_object(body)
            raw = lambda live: strategic_merge(live, patch, shape_of(resource))  # noqa: E731
        else:
            raise _patch_media(resource)

        def change(live: Json) -> Json:
            new = deepcopy(raw(live))
            if not isinstance(new, dict) or not isinstance(new.get("metadata", {}), dict):
                raise bad_request("the patched object is not an object of this kind: metadata must be an object")
            check_type(new, resource, self._registry)
            accept_fields(new, resource, options, request.warnings)
            self._check_name(new, request)
            return new

        return change

    async def _apply(self, request: Request, resource: Resource, call: Call) -> Answer:
        options, target = call.options, request.target
        if not request.param("fieldManager"):
            raise _required_manager()
        config = decode_yaml(request.body)
        if not isinstance(config, dict):
            raise bad_request("error decoding YAML: the applied configuration must be an object")
        check_applied(config, resource, self._registry)
        accept_fields(config, resource, options, request.warnings)
        meta = config["metadata"]
        if meta.setdefault("name", target.name) != target.name:
            raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})")
        if resource.namespaced:
            meta.setdefault("namespace", target.namespace)
        call.tracked = True

        def change(live: Json | None) -> Json:
            return apply(
                live,
                deepcopy(config),
                manager=options.manager,
                force=bool(options.force),
                shape=shape_of(resource),
                time=rfc3339(self._source.now()),
                subresource=target.subresource,
                api_version=resource.api_version,
            )

        where = target.namespace if resource.namespaced else ""
        if self._store.head(resource.storage, where, target.name) is None and not target.subresource:
            try:
                done = await self._writer.insert(resource, change(None), call, namespace=target.namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            else:
                return self._answer(request, resource, done)
        done = await self._writer.modify(resource, change, call, namespace=target.namespace, name=target.name)
        return self._answer(request, resource, done)

    def _answer(self, request: Request, resource: Resource, done: Written) -> Answer:
        want = negotiate(request.headers.get("accept", ""))
        return self._reader.one(request, resource, done.entry, want=want, code=201 if done.created else 200)


def check_applied(config: Json, resource: Resource, registry: Registry) -> None:
    """An applied configuration names its type: it is a document of its own."""
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request(
            "Object 'Kind' is missing in the applied configuration"
            if not config.get("kind")
            else "Object 'apiVersion' is missing in the applied configuration"
        )
    check_type(config, resource, registry)


def _patch_body(body: bytes) -> object:
    try:
        return decode_json(body)
    except ApiError as error:
        detail = error.message.rpartition("json parse error: ")[2]
        raise bad_request(f"error decoding patch: {detail}") from None


def _patch_object(body: bytes) -> Json:
    found = _patch_body(body)
    if not isinstance(found, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    return found


def _patch_media(resource: Resource) -> ApiError:
    accepted = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC] if resource.custom is None else []), APPLY]
    return unsupported_media_type(accepted)


def _required_manager() -> ApiError:
    fault = required("fieldManager", "is required for apply patch")
    return invalid("meta.k8s.io", "PatchOptions", "", [fault])


def _invalid_by_resource(resource: Resource, name: str, fault: FieldError) -> ApiError:
    """A refusal that names the resource where others name the kind, as kube-apiserver does for a missing version."""
    return invalid(resource.group, resource.plural, name, [fault])
