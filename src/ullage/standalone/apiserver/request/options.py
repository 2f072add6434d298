"""The query parameters of reads and writes, checked as kube-apiserver checks them, and the filter that a list or watch uses."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import msgspec

from ullage.selectors import FieldSelector, LabelSelector, SelectorError, field_text
from ullage.standalone.apiserver.codec.json import go_char
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import (
    ApiError,
    FieldError,
    Json,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    json_string,
    not_supported,
)
from ullage.standalone.apiserver.storage.store import Key

META = "meta.k8s.io"
MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")

# Field selectors beyond metadata.name and metadata.namespace, by resource.
_EVENT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIELD_LABELS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events": (
        *(f"involvedObject.{field}" for field in _EVENT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (*(f"regarding.{field}" for field in _EVENT), "reason", "reportingController", "type"),
}
# Where the value of a label is, where that is not what the label says; the first place that has one counts.
_PLACES: dict[tuple[str, str], tuple[str, ...]] = {
    ("jobs.batch", "status.successful"): ("status.succeeded",),
    ("events", "source"): ("source.component", "reportingComponent"),
    ("pods", "status.podIPs"): (),  # may be asked for, and is never there
}
# What an absent field counts as: a number or a truth value is never absent to kube-apiserver. Others are empty.
_ABSENT = {
    ("jobs.batch", "status.successful"): "0",
    ("nodes", "spec.unschedulable"): "false",
    ("pods", "spec.hostNetwork"): "false",
    ("replicationcontrollers", "status.replicas"): "0",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects a list or watch is about. `trivial` ones are decided by the key alone."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: FieldSelector
    of: str = ""  # the resource, as messages name it: the same label may be read from another place in another kind

    @property
    def trivial(self) -> bool:
        return not self.labels and not self.fields

    def has_key(self, key: Key) -> bool:
        return (not self.namespace or key[0] == self.namespace) and (not self.name or key[1] == self.name)

    def matches(self, data: bytes) -> bool:
        """Whether the object behind these bytes is selected; the key was asked before."""
        if self.trivial:
            return True
        if not self.fields:
            return self.labels.matches(_labels.decode(data).metadata.labels)
        obj = msgspec.json.decode(data)
        return self.labels.matches(obj["metadata"].get("labels")) and self.fields.matches(
            lambda label: _selected(self.of, label, obj)
        )


def _selected(resource: str, label: str, obj: Json) -> str:
    """The value that a field selector compares."""
    places = _PLACES.get((resource, label), (label,))
    return next(filter(None, (field_text(obj, place) for place in places)), _ABSENT.get((resource, label), ""))


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labels = msgspec.json.Decoder(_Labelled)


@dataclass(frozen=True, slots=True)
class ListOptions:
    filter: Filter
    limit: int
    token: Token | None
    rv: str
    match: str
    timeout: int
    bookmarks: bool
    initial_events: bool | None


@dataclass(frozen=True, slots=True)
class Token:
    """Where a paged list goes on: behind a key, at a revision (-1: whatever is current)."""

    rv: int
    start: Key

    def encode(self) -> str:
        body = {"v": "meta.k8s.io/v1", "rv": self.rv, "start": "/".join(self.start) + "\0"}
        return base64.urlsafe_b64encode(msgspec.json.encode(body)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> Token:
        """Raises a 400 that says what is wrong with it, as Go's decoders would."""
        bad = next((place for place, char in enumerate(text) if char not in _BASE64), None)
        if bad is None and len(text) % 4 == 1:
            bad = len(text) - 1
        if bad is not None:
            raise _bad_token(f"illegal base64 data at input byte {bad}")
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if raw[:1] != b"{":
            raise _bad_token(f"invalid character {go_char(raw[:1].decode('latin-1'))} looking for beginning of value")
        try:
            body = msgspec.json.decode(raw)
            version, rv, start = body["v"], body["rv"], str(body["start"])
            if not isinstance(rv, int) or abs(rv) > MAX_INT64:
                raise ValueError(rv)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
            raise _bad_token("json: cannot unmarshal the token") from None
        if version != "meta.k8s.io/v1":
            raise _bad_token(f"server does not recognize this encoded version {version}")
        if not rv:
            raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not start:
            raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
        if {".", ".."} & set(start.split("/")):
            raise _bad_token(start)
        namespace, _, name = start.removesuffix("\0").rpartition("/")
        return cls(rv, (namespace, name))


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _bad_token(detail: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {detail}")


def list_options(request: Request, resource: Resource, *, watch: bool) -> ListOptions:
    """The options of a list, watch or deletecollection. Raises 400 or 422."""
    limit = integer(request, "limit")
    timeout = integer(request, "timeoutSeconds")
    rv, match = request.param("resourceVersion"), request.param("resourceVersionMatch")
    initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
    token = request.param("continue")
    errors = _watch_faults(rv, match, initial) if watch else _list_faults(rv, match, initial, continued=bool(token))
    if errors:
        raise invalid(META, "ListOptions", "", errors)
    return ListOptions(
        filter=_filter(request, resource),
        limit=max(limit, 0),
        token=Token.decode(token) if token else None,
        rv=rv,
        match=match,
        timeout=timeout,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
    )


def _list_faults(rv: str, match: str, initial: bool | None, *, continued: bool) -> list[FieldError]:
    errors = []
    if match:
        if not rv:
            errors.append(
                forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if continued:
            errors.append(
                forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
        elif match == "Exact" and rv == "0":
            errors.append(
                forbidden_field("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if initial is not None:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_faults(rv: str, match: str, initial: bool | None) -> list[FieldError]:
    errors = []
    if initial is not None and match != "NotOlderThan":
        errors.append(
            forbidden_field("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if match and initial is None:
        errors.append(
            forbidden_field(
                "resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        )
    if match and match != "NotOlderThan":
        errors.append(not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
    return errors


def _filter(request: Request, resource: Resource) -> Filter:
    try:
        labels = LabelSelector.parse(request.param("labelSelector"))
        fields = FieldSelector.parse(request.param("fieldSelector"))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    check_field_labels(fields, resource)
    namespace = request.target.namespace if resource.namespaced else ""
    name = request.target.name or fields.exact("metadata.name") or ""
    return Filter(namespace, name, labels, fields, resource.group_resource)


def check_field_labels(fields: FieldSelector, resource: Resource) -> None:
    own = FIELD_LABELS.get(resource.group_resource, ())
    selectable = _selectable(resource)
    for field in fields.fields:
        if field == "metadata.name" or (field == "metadata.namespace" and (resource.namespaced or resource.custom is None)):
            continue
        if field in own or field in selectable:
            continue
        if resource.group_resource == "jobs.batch":
            raise bad_request(f"field label {json_string(field)} not supported for Job")
        if own or selectable:
            raise bad_request(f"field label not supported: {field}")
        known = ['"metadata.name"', *(['"metadata.namespace"'] if resource.namespaced or not resource.custom else [])]
        raise bad_request(f"{json_string(field)} is not a known field selector: only {', '.join(known)}")


def _selectable(resource: Resource) -> list[str]:
    """The fields that a CustomResourceDefinition offers for selection."""
    if resource.custom is None:
        return []
    version = next(v for v in resource.custom["versions"] if v["name"] == resource.version)
    return [item["jsonPath"].removeprefix(".") for item in version.get("selectableFields") or ()]


def integer(request: Request, name: str) -> int:
    """An integer parameter; absent or empty is 0."""
    text = request.param(name)
    if not text:
        return 0
    try:
        value = int(text) if _INTEGER.fullmatch(text) else None
    except ValueError:  # Python gives up on thousands of digits
        value = MAX_INT64 + 1
    if value is None:
        raise bad_request(f"strconv.ParseInt: parsing {json_string(text)}: invalid syntax")
    if abs(value) > MAX_INT64:
        raise bad_request(f"strconv.ParseInt: parsing {json_string(text)}: value out of range")
    return value


def revision(text: str) -> int:
    """A resourceVersion as a number. kube-apiserver answers a bad one with a 500 without a reason, and so do we."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        detail = f"strconv.ParseUint: parsing {json_string(text)}: invalid syntax"
        raise ApiError(500, "", str(invalid_value("resourceVersion", text, detail)))
    if len(text.lstrip("0")) > 20 or int(text) > MAX_UINT64:
        detail = f"strconv.ParseUint: parsing {json_string(text)}: value out of range"
        raise ApiError(500, "", str(invalid_value("resourceVersion", text, detail)))
    return int(text)


def too_large_version(asked: int, current: int) -> ApiError:
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a create, update or patch was asked to do beside storing."""

    dry_run: bool
    manager: str
    validation: str  # Ignore, Warn, Strict
    force: bool | None


def write_options(request: Request, kind: str) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: a refusal names it. Raises 400 or 422."""
    errors = [
        not_supported("dryRun", request.query["dryRun"], ["All"])
        for value in request.query.get("dryRun", ())
        if value and value != "All"
    ][:1]
    manager = request.param("fieldManager")
    if len(manager.encode()) > 128:
        errors.append(FieldError("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes"))
    if any(not char.isprintable() for char in manager):
        errors.append(invalid_value("fieldManager", manager, "should only contain printable characters"))
    validation = request.param("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if errors:
        raise invalid(META, kind, "", errors)
    return WriteOptions(
        dry_run=bool(request.param("dryRun")),
        manager=manager or _agent(request.headers.get("user-agent", "")),
        validation=validation,
        force=request.flag("force") if "force" in request.query else None,
    )


def _agent(header: str) -> str:
    """The program behind a User-Agent, as the manager of the fields it writes. Who does not say is unknown."""
    printable = "".join(filter(str.isprintable, header.partition("/")[0]))
    return printable.encode()[:128].decode(errors="ignore") or "unknown"
