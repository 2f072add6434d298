"""create, update and patch, as HTTP asks for them: what the body means, and which pipeline it goes through."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from ullage.standalone.apiserver.auth.rbac import Authorizer, denied
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.codec.json import MAX_DEPTH, BadBody, check_stored_depth, parse_json
from ullage.standalone.apiserver.codec.strict import Sent, repeated_in_yaml
from ullage.standalone.apiserver.codec.yaml import parse_yaml
from ullage.standalone.apiserver.fields.apply.merge import apply
from ullage.standalone.apiserver.fields.patch.form import json_type
from ullage.standalone.apiserver.fields.patch.json_patch import json_patch
from ullage.standalone.apiserver.fields.patch.media_types import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC
from ullage.standalone.apiserver.fields.patch.merge import merge_patch
from ullage.standalone.apiserver.fields.patch.strategic import strategic_merge
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.go_text import go_text
from ullage.standalone.apiserver.handlers.calls import Call, Change, Source, Written
from ullage.standalone.apiserver.handlers.changes import is_unversioned
from ullage.standalone.apiserver.handlers.endpoints import reset_fields
from ullage.standalone.apiserver.handlers.reads import Reader, wanted
from ullage.standalone.apiserver.handlers.writes import RETRIES, Writer
from ullage.standalone.apiserver.kinds.resources import Registry, Resource, shape_of
from ullage.standalone.apiserver.limits.threads import offload
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.answers import Answer, Stream
from ullage.standalone.apiserver.request.decoding import accept_body, accept_fields, check_type, sent_text
from ullage.standalone.apiserver.request.negotiation import Want
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.request.write_options import WriteOptions, write_options
from ullage.standalone.apiserver.status import (
    ApiError,
    bad_request,
    conflict,
    forbidden_field,
    invalid,
    invalid_value,
    required,
    unsupported_media_type,
)
from ullage.standalone.apiserver.storage.store import Store
from ullage.times import timestamp

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


class Editor:
    def __init__(
        self, store: Store, *, registry: Registry, writer: Writer, reader: Reader, authorizer: Authorizer, source: Source
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._registry = registry
        self._writer = writer
        self._reader = reader
        self._source = source

    async def create(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        want = wanted(request, resource)
        options = write_options(request, "CreateOptions")
        obj = await offload(len(request.body), partial(self._accepted, request, resource, options))
        if request.target.name:  # the path of a custom object takes a POST too; the right that was asked for is to this name
            self._check_name(obj, request)
        call = Call(user, options, "CreateOptions", warnings=request.warnings, size=len(request.body))
        done = await self._writer.insert(resource, obj, call, namespace=request.target.namespace)
        return self._answer(request, resource, done, want)

    async def update(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        want = wanted(request, resource)
        options = write_options(request, "UpdateOptions")
        obj = await offload(len(request.body), partial(self._accepted, request, resource, options))
        target = request.target
        self._check_name(obj, request)
        if resource.namespaced and obj["metadata"].get("namespace") not in (None, "", target.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        size = len(request.body)
        call = Call(user, options, "UpdateOptions", subresource=target.subresource, warnings=request.warnings, size=size)
        where = target.namespace if resource.namespaced else ""
        if self._store.head(resource.storage, where, target.name) is None and self._may_create(resource, target.subresource):
            self._authorize_create(request, resource, call)
            try:
                done = await self._writer.insert(resource, _without_version(obj), call, namespace=target.namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":  # else somebody was quicker, and this is an update after all
                    raise
            else:
                return self._answer(request, resource, done, want)
        insist = not is_unversioned(obj["metadata"])
        done = await self._writer.modify(
            resource, lambda live: copied(obj), call, namespace=target.namespace, name=target.name, insist=insist
        )
        return self._answer(request, resource, done, want)

    def _accepted(self, request: Request, resource: Resource, options: WriteOptions) -> Json:
        obj = accept_body(request, resource, self._registry)
        accept_fields(obj, resource, options, request.warnings, sent=sent_text(request))
        return obj

    def _may_create(self, resource: Resource, subresource: str) -> bool:
        return not subresource and resource.group_resource in _CREATED_BY_UPDATE

    def _check_name(self, obj: Json, request: Request) -> None:
        name = obj["metadata"].get("name")
        if not name:
            raise _nameless(request.target.name)
        if name != request.target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.target.name})")

    async def patch(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        want = wanted(request, resource)
        options = write_options(request, "PatchOptions")
        target = request.target
        media = request.media_type
        size = len(request.body)
        call = Call(user, options, "PatchOptions", subresource=target.subresource, warnings=request.warnings, size=size)
        if media == APPLY:
            return await self._apply(request, resource, call, want)
        if options.force is not None:
            fault = forbidden_field("force", "may not be specified for non-apply patch")
            raise invalid("meta.k8s.io", "PatchOptions", "", [fault])
        change = await offload(size, partial(self._change, request, resource, options))
        done = await self._writer.modify(resource, change, call, namespace=target.namespace, name=target.name)
        return self._answer(request, resource, done, want)

    def _change(self, request: Request, resource: Resource, options: WriteOptions) -> Change:
        """The patch as a function of the live object."""
        media = request.media_type
        compute: Callable[[Json, object], Json]
        if media == JSON_PATCH:
            compute, prefix = json_patch, "error decoding patch: "
        elif media == MERGE_PATCH:
            compute, prefix = merge_patch, "error decoding patch: "
        elif media == STRATEGIC and resource.custom is None:
            compute, prefix = partial(_strategic, shape_of(resource)), ""
        else:
            raise _patch_media(resource)
        try:
            patch = parse_json(request.body)
        except BadBody as error:
            raise bad_request(f"{prefix}{error}") from None

        def change(live: Json) -> Json:
            try:
                new = copied(compute(live, patch))
            except RecursionError:  # operations that put the outcome of one into the next go deeper than any body could
                raise bad_request(f"{prefix}exceeded max depth") from None
            self._check_patched(new, resource, options, request, patch)
            return new

        return change

    def _check_patched(self, new: Json, resource: Resource, options: WriteOptions, request: Request, patch: object) -> None:
        """The outcome is decoded like a body would be; but what is wrong with it, is wrong with the patch."""
        try:
            _check_depth(new, request)
            check_type(new, resource, self._registry)
            lead = "json patch " if request.media_type == JSON_PATCH else ""
            accept_fields(new, resource, options, request.warnings, sent=Sent(request.body, patch=True, lead=lead))
        except ApiError as error:
            if error.code != 400:
                raise
            detail = error.message.partition(f" as a {resource.kind}: ")[2] or error.message
            if request.media_type == STRATEGIC and (restored := _RESTORED.search(detail)):
                detail = f"cannot restore {restored[2]} from {'slice' if restored[1] == 'array' else restored[1]}"
            raise invalid("", "", "", [invalid_value("patch", go_text(patch), detail)]) from None
        self._check_name(new, request)

    async def _apply(self, request: Request, resource: Resource, call: Call, want: Want) -> Answer | Stream:
        options, target = call.options, request.target
        if not request.param("fieldManager"):
            raise _required_manager()
        config = await offload(call.size, partial(self._applied, request, resource))
        repeated = None
        if options.validation != "Ignore":
            repeated = await offload(call.size, partial(repeated_in_yaml, request.body, []))
        call.tracked = True

        def change(live: Json | None) -> Json:
            new = apply(
                live,
                config,
                manager=options.manager,
                force=bool(options.force),
                shape=shape_of(resource),
                time=timestamp(self._source.now()),
                subresource=target.subresource,
                api_version=resource.api_version,
                reset=reset_fields(resource, target.subresource),
            )
            if repeated is not None and repeated.strict and options.validation == "Strict":
                raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {repeated.strict}")
            new = copied(new)
            if resource.schema is not None:
                resource.schema.prune(new)
            return new

        done = await self._create_or_change(request, resource, call, change)
        request.warnings += repeated.warnings if repeated is not None else []
        return self._answer(request, resource, done, want)

    async def _create_or_change(
        self, request: Request, resource: Resource, call: Call, change: Callable[[Json | None], Json]
    ) -> Written:
        """Creates the object if it is missing and changes it if it is there, though it may come or go in between."""
        target = request.target
        where = target.namespace if resource.namespaced else ""
        for _ in range(RETRIES):
            missing = self._store.head(resource.storage, where, target.name) is None and not target.subresource
            try:
                if not missing:
                    return await self._writer.modify(resource, change, call, namespace=target.namespace, name=target.name)
                self._authorize_create(request, resource, call)
                created = await offload(call.size, partial(change, None))
                _refuse_uid(resource, created["metadata"])
                created["metadata"].pop("resourceVersion", None)
                return await self._writer.insert(resource, created, call, namespace=target.namespace)
            except ApiError as error:
                if target.subresource or error.reason != ("AlreadyExists" if missing else "NotFound"):
                    raise
        raise conflict(resource.group, resource.plural, target.name)

    def _applied(self, request: Request, resource: Resource) -> Json:
        """The configuration in the body. It is a document of its own: it names its type and its object."""
        try:
            config = parse_yaml(request.body)
        except BadBody as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
        if config is None:
            config = {}
        if isinstance(config, dict):
            _check_depth(config, request)
        if not isinstance(config, dict):
            found = json_type(config)
            raise bad_request(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
                f"{found} into Go value of type map[string]interface {{}}"
            )
        if (config.get("apiVersion"), config.get("kind")) != (resource.api_version, resource.kind):
            group, _, version = str(config.get("apiVersion") or "").rpartition("/")
            raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
        name = dig(config, "metadata", "name")
        if not name:
            raise _nameless(request.target.name)
        if name != request.target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.target.name})")
        return config

    def _authorize_create(self, request: Request, resource: Resource, call: Call) -> None:
        """An apply or an update that finds nothing is a create, and wants the right to it."""
        target = request.target
        asked = AccessAttributes(
            verb="create",
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            namespace=target.namespace,
            name=target.name,
        )
        decision = self._authorizer.authorize(call.user, asked)
        if not decision.allowed:
            raise denied(call.user, asked, decision)

    def _answer(self, request: Request, resource: Resource, done: Written, want: Want) -> Answer | Stream:
        return self._reader.one(request, resource, done.entry, want=want, code=201 if done.created else 200)


def copied(obj: Json) -> Json:
    """A copy that shares nothing with the original; by way of JSON, which is what it is made of, and quicker than deepcopy."""
    found: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return found


def _check_depth(obj: Json, request: Request) -> None:
    """A JSON patch is flat itself, and builds as deep as it likes."""
    try:
        check_stored_depth(obj, b"[" * (MAX_DEPTH + 1) if request.media_type == JSON_PATCH else request.body)
    except BadBody as error:
        raise bad_request(str(error)) from None


def _without_version(obj: Json) -> Json:
    found = copied(obj)
    found["metadata"].pop("resourceVersion", None)
    return found


def _refuse_uid(resource: Resource, meta: Json) -> None:
    """Whoever names a uid means an object that exists."""
    if uid := meta.get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(resource.group, resource.plural, meta["name"], text)


def _nameless(name: str) -> ApiError:
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def _strategic(shape: Shape, live: Json, patch: object) -> Json:
    return strategic_merge(live, patch, shape)


_RESTORED = re.compile(r"cannot unmarshal (\w+)\b.* of type (map|slice|struct)")


def _patch_media(resource: Resource) -> ApiError:
    if resource.custom is None:
        return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    return unsupported_media_type([JSON_PATCH, MERGE_PATCH, APPLY])


def _required_manager() -> ApiError:
    fault = required("fieldManager", "is required for apply patch")
    return invalid("meta.k8s.io", "PatchOptions", "", [fault])
