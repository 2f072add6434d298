"""What mutating webhooks left behind, read again as if it had come over the wire.

A patch can put any value anywhere. Everything that comes after admission relies on the types of the schema, so an object that
a webhook changed is decoded once more. What does not fit is the webhook author's fault: 500, in the decoder's words.
"""

from __future__ import annotations

from typing import Final

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import ordered
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.schema.definitions import load
from ullage.standalone.apiserver.status import internal_error, invalid, invalid_value, not_registered

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def reread(obj: Json, resource: Resource) -> Json:
    """The object with its type first and without unknown fields. Raises 500, or 422 for a custom kind that is another now."""
    _check_type(obj, resource)
    found = ordered(obj, resource.api_version, resource.kind)
    if isinstance(resource.schema, BuiltinSchema):
        if problem := resource.schema.decode(found):
            raise internal_error(problem)
    else:
        _drop_unreadable(found["metadata"])
    if resource.schema is not None:
        resource.schema.prune(found)
    return found


def _check_type(obj: Json, resource: Resource) -> None:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    if resource.custom is None or api_version != resource.api_version:
        raise internal_error(not_registered(str(kind or ""), str(api_version or "")))
    fault = invalid_value("kind", kind, f"must be {resource.kind}")
    raise invalid(resource.group, str(kind), dig(obj, "metadata", "name") or "", [fault])


def _drop_unreadable(meta: Json) -> None:
    """The metadata of custom kinds is read leniently: what cannot be read was never there."""
    schema = compile_builtin(load(), _OBJECT_META)
    for key in [key for key, value in meta.items() if schema.decode({key: value})]:
        del meta[key]
    schema.prune(meta)
