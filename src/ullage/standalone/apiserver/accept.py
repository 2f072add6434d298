"""From a body to an object of the kind that the URL names: type, fields, and what is unknown among them."""

from __future__ import annotations

from ullage.standalone.apiserver.definitions import load
from ullage.standalone.apiserver.options import WriteOptions
from ullage.standalone.apiserver.request import Request, decode_body
from ullage.standalone.apiserver.resources import Registry, Resource
from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.status import ApiError, Json, bad_request, json_string

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCHEME = 'scheme "pkg/runtime/scheme.go:111"'


def accept_body(request: Request, resource: Resource, registry: Registry) -> Json:
    """The object in the body, once its type is known to be the one that is served here."""
    try:
        obj = decode_body(request)
    except ApiError as error:
        if error.code != 400:
            raise
        sample = request.body.decode("utf-8", "replace") or "<empty>"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): {error.message} ({_clip(sample)})"
        ) from None
    check_type(obj, resource, registry)
    return obj


def _clip(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]} ..."


def check_type(obj: Json, resource: Resource, registry: Registry) -> None:
    """The body's apiVersion and kind. Built-in kinds may leave both out, custom ones may not."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if resource.custom is None and not api_version and not kind:
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        return
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    if resource.custom is not None:
        raise _wrong_custom_type(obj, resource)
    group, _, version = str(api_version or resource.api_version).rpartition("/")
    kind = str(kind or resource.kind)
    if registry.by_kind(group, version, kind) is None:
        shown = f"{group}/{version}" if group else version
        tail = f"no kind {json_string(kind)} is registered for version {json_string(shown)} in {_SCHEME}"
    elif kind == resource.kind:
        tail = f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
        raise bad_request(tail)
    else:
        package = (resource.group or "core").split(".")[0]
        tail = f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    raise bad_request(f"{kind} in version {json_string(version)} cannot be handled as a {resource.kind}: {tail}")


def _wrong_custom_type(obj: Json, resource: Resource) -> ApiError:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not kind:
        return bad_request(f"Object 'Kind' is missing in '{_clip(str(obj))}'")
    if not api_version:
        return bad_request(f"Object 'apiVersion' is missing in '{_clip(str(obj))}'")
    if kind != resource.kind:
        return bad_request(
            f"{kind} in version {json_string(resource.version)} cannot be handled as a {resource.kind}: "
            f"the kind in the data ({kind}) does not match the expected kind ({resource.kind})"
        )
    return bad_request(
        f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
    )


def accept_fields(obj: Json, resource: Resource, options: WriteOptions, warnings: list[str]) -> None:
    """Refuses values of the wrong type, and drops unknown fields: silently, with a warning, or with a 400 under Strict."""
    meta = obj.get("metadata")
    if meta is None:
        obj["metadata"] = {}
    problem = _decode_problem(obj, resource)
    if problem is not None:
        raise bad_request(f"{_lead(resource)}: {problem}")
    unknown: list[str] = []
    if resource.schema is not None:
        unknown += resource.schema.prune(obj)
    if resource.custom is not None:
        unknown += [f"metadata.{path}" for path in _meta_schema().prune(obj["metadata"])]
    if not unknown or options.validation == "Ignore":
        return
    faults = [f"unknown field {json_string(path)}" for path in unknown]
    if options.validation == "Strict":
        raise bad_request(f"{_lead(resource)}: strict decoding error: {', '.join(faults)}")
    warnings += faults


def _lead(resource: Resource) -> str:
    return f"{resource.kind} in version {json_string(resource.version)} cannot be handled as a {resource.kind}"


def _decode_problem(obj: Json, resource: Resource) -> str | None:
    if isinstance(resource.schema, BuiltinSchema):
        return resource.schema.decode(obj)
    if not isinstance(obj["metadata"], dict):
        return "json: cannot unmarshal metadata: it must be an object"
    return _meta_schema().decode(obj["metadata"])


def _meta_schema() -> BuiltinSchema:
    return compile_builtin(load(), _OBJECT_META)
