"""Which handler answers a request, once it is known who asks and that they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.selectors import FieldSelector, SelectorError
from ullage.standalone.apiserver.about.deprecations import deprecation
from ullage.standalone.apiserver.about.discovery import Discovery, root_paths, version_info
from ullage.standalone.apiserver.about.health import Health
from ullage.standalone.apiserver.about.openapi.documents import OpenApi
from ullage.standalone.apiserver.auth import reviews
from ullage.standalone.apiserver.auth.impersonation import impersonate, requested
from ullage.standalone.apiserver.auth.rbac import Authorizer, denied
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.tokens import Tokens
from ullage.standalone.apiserver.auth.users import ANONYMOUS, User, authenticate
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.handlers.edits import Editor
from ullage.standalone.apiserver.handlers.exec import Exec
from ullage.standalone.apiserver.handlers.reads import Reader, virtual_answer, wanted
from ullage.standalone.apiserver.handlers.subresources import BINDINGS, NOTHING_RUNS, SPECIAL, Subresources
from ullage.standalone.apiserver.handlers.watches import Watcher
from ullage.standalone.apiserver.kinds.builtin import METRICS, TRANSIENT
from ullage.standalone.apiserver.kinds.metadata import path_segment
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.request.answers import Answer, Stream, Tunnel, json_answer
from ullage.standalone.apiserver.request.decoding import accept_review
from ullage.standalone.apiserver.request.document import Document
from ullage.standalone.apiserver.request.request import Request, Target
from ullage.standalone.apiserver.status import (
    ApiError,
    bad_request,
    json_string,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    not_found,
    wrong_method,
)

# Which paths a kind has, and what may be done there. A namespaced kind lives below `namespaces/<namespace>/` and a
# cluster-wide one does not: the wrong place is no place (404), whoever asks and for whatever. Else a right in one
# namespace would reach objects that are not in it.


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


@dataclass(frozen=True, slots=True)
class Handlers:
    reader: Reader
    watcher: Watcher
    editor: Editor
    deleter: Deleter
    subresources: Subresources
    exec: Exec


class Router:
    def __init__(
        self,
        *,
        registry: Registry,
        handlers: Handlers,
        authorizer: Authorizer,
        tokens: Tokens,
        discovery: Discovery,
        openapi: OpenApi,
        documents: Mapping[str, Document],
        health: Health,
    ) -> None:
        self._registry = registry
        self._handlers = handlers
        self._authorizer = authorizer
        self._tokens = tokens
        self._discovery = discovery
        self._openapi = openapi
        self._health = health
        self._documents = documents  # path to what never changes

    async def handle(self, request: Request, peer_certificate: bytes | None) -> Answer | Stream | Tunnel:
        user = authenticate(request.headers, peer_certificate, tokens=self._tokens, warn=request.warnings.append)
        if user is not ANONYMOUS:
            request.known()
        asked = _attributes(request)
        wanted = requested(request.header_list)
        if wanted is not None:
            user = impersonate(user, wanted, authorizer=self._authorizer)
        decision = self._authorizer.authorize(user, asked)
        if not decision.allowed:
            raise denied(user, asked, decision)
        if request.target.served:
            await request.read(user.name)
            return await self._resource(request, user)
        return self._path(request)

    # --- objects ---

    async def _resource(self, request: Request, user: User) -> Answer | Stream | Tunnel:
        target = request.target
        resource = self._registry.find(target.group, target.version, target.resource) if _is_plain(request) else None
        if resource is None:
            return self._nothing(request, target.group)
        if warning := deprecation(resource):
            request.warnings.append(warning)
        if resource.custom is not None:
            return await self._custom(request, resource, user)
        verbs = verbs_at(target, resource)
        if not verbs:
            raise no_such_path()
        if request.verb not in verbs or request.method == "HEAD" or (target.prefix and request.method != "GET"):
            raise wrong_method()
        _check_path(request, resource)
        if resource.group in TRANSIENT:
            return await self._review(request, resource, user)
        if target.subresource == "exec" and resource.group_resource == "pods":
            return await self._handlers.exec.open(request, resource, user)
        if target.subresource in SPECIAL or resource.group_resource == BINDINGS:
            return await self._handlers.subresources.answer(request, resource, user)
        return await self._verb(request, resource, user)

    async def _custom(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        """Custom kinds are routed by hand in kube-apiserver, too, and it shows."""
        target, verb = request.target, request.verb
        if not fits_scope(target, resource, verb):
            return page_not_found()
        verbs = resource.verbs
        if target.subresource:
            sub = resource.subresources.get(target.subresource)
            if sub is None:
                raise not_found(resource.group, resource.plural, target.name)
            verbs = sub.verbs
        if verb not in verbs:
            raise method_not_allowed(resource.group, resource.plural, verb)
        if verb in ("update", "patch") and not target.name:
            raise bad_request("name must be provided")
        if verb == "watch" and request.method == "HEAD":
            raise wrong_method()
        _check_path(request, resource)
        if target.subresource in SPECIAL:
            return await self._handlers.subresources.answer(request, resource, user)
        return await self._verb(request, resource, user)

    def _nothing(self, request: Request, group: str) -> Answer:
        """404. The paths below a group of the server's own are answered by other machinery than all the rest."""
        if self._registry.builtin_group(group) and _is_plain(request):
            raise no_such_path()
        if group == METRICS and request.target.version in self._registry.empty.get(group, ()):
            raise ApiError(404, "NotFound", f"there are no metrics: {NOTHING_RUNS}")
        return page_not_found()

    async def _verb(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        match request.verb:
            case "get":
                return self._handlers.reader.get(request, resource)
            case "list":
                return await self._handlers.reader.list_objects(request, resource)
            case "watch":
                return self._handlers.watcher.watch(request, resource)
            case "create":
                return await self._handlers.editor.create(request, resource, user)
            case "update":
                return await self._handlers.editor.update(request, resource, user)
            case "patch":
                return await self._handlers.editor.patch(request, resource, user)
            case "delete":
                return await self._handlers.deleter.delete(request, resource, user)
            case "deletecollection":
                return await self._handlers.deleter.delete_collection(request, resource, user)
        raise wrong_method()

    async def _review(self, request: Request, resource: Resource, user: User) -> Answer:
        want = wanted(request, resource, virtual=True)
        body = await accept_review(request, resource, self._registry)
        asked = reviews.Asked(user, request.target.namespace, self._handlers.reader.now(), self._authorizer, self._tokens)
        return virtual_answer(reviews.REVIEWS[resource.group, resource.plural](body, asked), want)

    # --- everything else ---

    def _path(self, request: Request) -> Answer:
        probe = self._health.answer(request.path, verbose="verbose" in request.query, excluded=request.query.get("exclude", ()))
        if probe is not None:
            return probe
        path = request.path.rstrip("/") or "/"
        found = self._found(request, path)
        if found is None:
            if path.startswith("/openapi/"):
                return Answer(404, b"", "")
            prefix, group, version = ([*path.split("/")[1:], "", ""])[:3]
            below = (prefix == "api" and group) or (prefix == "apis" and version)
            return self._nothing(request, group if prefix == "apis" else "") if below else page_not_found()
        if request.method not in ("GET", "HEAD"):
            raise wrong_method()
        return found

    def _found(self, request: Request, path: str) -> Answer | None:
        """What is served at a path that is no resource's."""
        if path == "/version":
            return json_answer(version_info())
        if path == "/":
            return json_answer(root_paths(self._registry))
        accept, held = request.headers.get("accept", ""), request.headers.get("if-none-match", "")
        found = self._documents.get(path)
        if path.startswith("/openapi/"):
            found = self._openapi.answer(path, accept=accept, if_none_match=held, wanted=request.param("hash"))
        elif path in ("/api", "/apis") or path.startswith(("/api/", "/apis/")):
            found = self._discovery.answer(path, accept=accept, if_none_match=held)
            if found is not None and accept and not any(word in accept for word in ("json", "*", "yaml")):
                raise not_acceptable(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
        return None if found is None else self._document(found)

    def _document(self, found: Document) -> Answer:
        headers = tuple((name, value) for name, value in found.headers() if name != "content-type")
        return Answer(found.status, found.body, found.content_type, headers)


def _attributes(request: Request) -> AccessAttributes:
    target = request.target
    if not target.served:
        return AccessAttributes(verb=request.method.lower(), path=request.path)
    return AccessAttributes(
        verb=request.verb,
        group=target.group,
        version=target.version,
        resource=target.resource,
        subresource=target.subresource,
        namespace=target.namespace,
        name=target.name or _selected_name(request),
    )


def _selected_name(request: Request) -> str:
    """A list or watch of one name asks for the right to that name."""
    if request.verb not in ("list", "watch") or request.target.prefix or "fieldSelector" not in request.query:
        return ""
    try:
        name = FieldSelector.parse(request.param("fieldSelector")).exact("metadata.name") or ""
    except SelectorError:
        return ""  # the handler has the words for it
    return "" if path_segment(name) else name


def _is_plain(request: Request) -> bool:
    """Whether the path begins as those that are served do: not with two slashes, nor with a group that has no name."""
    return request.path.startswith("/api/") or (request.path.startswith("/apis/") and not request.path.startswith("/apis//"))


def _check_path(request: Request, resource: Resource) -> None:
    """Refuses names that no object can have."""
    target = request.target
    if target.name and request.verb != "update" and (faults := path_segment(target.name)):
        raise bad_request(f"Name parameter invalid: {json_string(target.name)}: {faults[0]}")
    if target.within and not target.namespace and request.verb not in ("list", "watch"):
        raise bad_request("Namespace parameter required.")


def page_not_found() -> Answer:
    return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
