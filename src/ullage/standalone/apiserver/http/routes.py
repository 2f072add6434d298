"""Which paths a kind has, and what may be done there.

A namespaced kind lives below `namespaces/<namespace>/` and a cluster-wide one does not: the wrong place is no place (404),
whoever asks and for whatever. Else a right in one namespace would reach objects that are not in it.
"""

from __future__ import annotations

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.request.request import Target

_COLLECTION = ("create", "deletecollection", "list", "watch")
_OBJECT = ("delete", "get", "patch", "update")
_EVERYWHERE = ("list", "watch")  # what a namespaced kind can be asked without a namespace


def verbs_at(target: Target, resource: Resource) -> tuple[str, ...]:
    """The verbs that a built-in kind knows at a path of its own; none where it has no such path."""
    if target.within and not resource.namespaced:
        return ()
    everywhere = resource.namespaced and not target.within
    if everywhere and (target.name or target.subresource):
        return ()
    if target.prefix:
        watched = target.prefix == "watch" and "watch" in resource.verbs and not target.subresource
        return ("watch",) if watched else ()
    if target.subresource:
        return _subresource_verbs(target, resource)
    known = _EVERYWHERE if everywhere else _OBJECT if target.name else _COLLECTION
    return tuple(verb for verb in known if verb in resource.verbs)


def _subresource_verbs(target: Target, resource: Resource) -> tuple[str, ...]:
    found = resource.subresources.get(target.subresource)
    if found is None or not target.name or (target.rest and found.name != "proxy"):
        return ()
    return found.verbs


def fits_scope(target: Target, resource: Resource, verb: str) -> bool:
    """Whether a custom kind has the path: it goes by the namespace alone, as kube-apiserver does."""
    if resource.namespaced:
        return bool(target.namespace) or verb in _EVERYWHERE
    return not target.namespace
