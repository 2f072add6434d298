"""The query parameters of list, watch and deletecollection, checked as kube-apiserver checks them."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.request.continuation import ContinueToken
from ullage.standalone.apiserver.request.filter import Filter, filter_of
from ullage.standalone.apiserver.request.parameters import META, integer
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid, not_supported


@dataclass(frozen=True, slots=True)
class ListOptions:
    filter: Filter
    limit: int
    token: ContinueToken | None
    rv: str
    match: str
    timeout: int
    bookmarks: bool
    initial_events: bool | None


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
        filter=filter_of(request, resource),
        limit=max(limit, 0),
        token=ContinueToken.decode(token) if token else None,
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
