"""From a body to an object of the kind that the URL names: type, fields, and what is unknown among them."""

from __future__ import annotations

from functools import partial

from ullage.standalone.apiserver.codec import protobuf
from ullage.standalone.apiserver.codec.json import BadBody, check_stored_depth
from ullage.standalone.apiserver.codec.protobuf import Expected
from ullage.standalone.apiserver.codec.strict import Sent, find_faults
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.limits.threads import offload
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.request import YAML_TYPES, Request, decode_body
from ullage.standalone.apiserver.request.write_options import WriteOptions, write_options
from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.schema.custom import CustomSchema
from ullage.standalone.apiserver.schema.definitions import load
from ullage.standalone.apiserver.status import (
    ApiError,
    bad_request,
    invalid,
    invalid_value,
    json_string,
    not_registered,
    unrecognized,
    unsupported_media_type,
)

_API = "io.k8s.api"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_DEFINITIONS = {  # of kinds that are sent and never stored
    "Binding": f"{_API}.core.v1.Binding",
    "Eviction": f"{_API}.policy.v1.Eviction",
    "Scale": f"{_API}.autoscaling.v1.Scale",
    "TokenRequest": f"{_API}.authentication.v1.TokenRequest",
}
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def accept_body(request: Request, resource: Resource, registry: Registry) -> Json:
    """The object in the body, once its type is known to be the one that is served here."""
    if resource.custom is not None and request.media_type == protobuf.MEDIA_TYPE:
        raise unsupported_media_type(["application/json", "application/yaml"])
    try:
        obj = decode_body(request, Expected(resource.api_version, resource.kind))
        check_stored_depth(obj, request.body)
    except BadBody as error:  # a number that nothing holds, or more depth than can be kept
        raise bad_request(f"{_lead(resource)}: {error}") from None
    if resource.custom is not None and not (obj.get("kind") and obj.get("apiVersion")):
        lacking = "apiVersion" if obj.get("kind") else "Kind"
        text = f"Object '{lacking}' is missing in '{request.body.decode('utf-8', 'replace')}'"
        raise unrecognized(resource.kind, text, request.body)
    check_type(obj, resource, registry)
    return obj


async def accept_sent(request: Request, expected: Expected) -> Json:
    """A body of a kind that is not stored, its fields of the right types."""
    return await offload(len(request.body), partial(_sent, request, expected))


def _sent(request: Request, expected: Expected) -> Json:
    obj = decode_body(request, expected)
    check_shape(obj, expected)
    return obj


def check_shape(obj: Json, expected: Expected) -> None:
    """Raises 400 where a field is not of its type."""
    problem = compile_builtin(load(), _DEFINITIONS[expected.kind]).decode(obj)
    if problem is not None:
        version = json_string(expected.api_version.rpartition("/")[2])
        raise bad_request(f"{expected.kind} in version {version} cannot be handled as a {expected.kind}: {problem}")


async def accept_review(request: Request, resource: Resource, registry: Registry) -> Json:
    """The body of a review: a question of a built-in kind, which is answered and not stored."""
    return await offload(len(request.body), partial(_review, request, resource, registry))


def _review(request: Request, resource: Resource, registry: Registry) -> Json:
    obj = accept_body(request, resource, registry)
    accept_fields(obj, resource, write_options(request, "CreateOptions"), request.warnings, sent=sent_text(request))
    return obj


async def accept_delete_options(request: Request) -> Json:
    """Options of a delete. What is wrong with them is told without their kind."""
    return await offload(len(request.body), partial(_delete_options, request))


def _delete_options(request: Request) -> Json:
    obj = decode_body(request)
    problem = compile_builtin(load(), DELETE_OPTIONS).decode(obj)
    if problem is not None:
        raise bad_request(problem)
    return obj


def check_type(obj: Json, resource: Resource, registry: Registry) -> None:
    """The body's apiVersion and kind. Built-in kinds may leave them out, custom ones may not."""
    if resource.custom is None:
        obj["apiVersion"] = obj.get("apiVersion") or resource.api_version
        obj["kind"] = obj.get("kind") or resource.kind
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    if resource.custom is not None:
        raise _wrong_custom_type(obj, resource)
    group, _, version = str(api_version).rpartition("/")
    kind = str(kind)
    if registry.by_kind(group, version, kind) is None:
        shown = f"{group}/{version}" if group else version
        tail = not_registered(kind, shown)
    elif kind == resource.kind:
        tail = f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
        raise bad_request(tail)
    else:
        package = (resource.group or "core").split(".")[0]
        tail = f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    raise bad_request(f"{kind} in version {json_string(version)} cannot be handled as a {resource.kind}: {tail}")


def _wrong_custom_type(obj: Json, resource: Resource) -> ApiError:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if api_version == resource.api_version or not api_version:
        fault = invalid_value("kind", kind, f"must be {resource.kind}")
        return invalid(resource.group, str(kind), dig(obj, "metadata", "name") or "", [fault])
    return bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
    )


def accept_fields(
    obj: Json, resource: Resource, options: WriteOptions, warnings: list[str], *, sent: Sent | None = None
) -> None:
    """Refuses values of the wrong type, and drops unknown fields: silently, with a warning, or with a 400 under Strict.

    `sent` is what the object was read from: keys that stand in it twice are told like unknown ones.
    """
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    problem = _decode_problem(obj, resource)
    if problem is not None:
        raise bad_request(f"{_lead(resource)}: {problem}")
    unknown: list[str] = []
    if resource.schema is not None:
        unknown += resource.schema.prune(obj)
    if resource.custom is not None:
        unknown += [f"metadata.{path}" for path in _meta_schema().prune(obj["metadata"])]
    if options.validation == "Ignore":
        return
    faults = find_faults(sent, unknown, custom=resource.custom is not None)
    if faults.strict and options.validation == "Strict":
        raise bad_request(f"{_lead(resource)}: strict decoding error: {faults.strict}")
    warnings += faults.warnings


def sent_text(request: Request) -> Sent | None:
    """What a create or an update was read from; protobuf has no keys that could stand there twice."""
    if request.media_type == protobuf.MEDIA_TYPE:
        return None
    return Sent(request.body, yaml=request.media_type in YAML_TYPES)


def _lead(resource: Resource) -> str:
    return f"{resource.kind} in version {json_string(resource.version)} cannot be handled as a {resource.kind}"


def _decode_problem(obj: Json, resource: Resource) -> str | None:
    if isinstance(resource.schema, BuiltinSchema):
        return resource.schema.decode(obj)
    problem = _meta_schema().decode(obj["metadata"])
    if problem is None and isinstance(resource.schema, CustomSchema):
        problem = resource.schema.decode(obj)
    return problem


def _meta_schema() -> BuiltinSchema:
    return compile_builtin(load(), _OBJECT_META)
