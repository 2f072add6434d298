"""Which handler answers: the API server's front desk, behind authentication and authorization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.selectors import FieldSelector, SelectorError
from ullage.standalone.apiserver.answers import Answer, Stream, json_answer
from ullage.standalone.apiserver.auth import reviews
from ullage.standalone.apiserver.auth.impersonation import impersonate, requested
from ullage.standalone.apiserver.auth.rbac import Authorizer, denied
from ullage.standalone.apiserver.auth.rules import Attributes
from ullage.standalone.apiserver.auth.tokens import Tokens
from ullage.standalone.apiserver.auth.users import User, authenticate
from ullage.standalone.apiserver.builtin import TRANSIENT
from ullage.standalone.apiserver.deletes import Deleter
from ullage.standalone.apiserver.deprecations import deprecation
from ullage.standalone.apiserver.discovery import Discovery, root_paths, version_info
from ullage.standalone.apiserver.document import Document
from ullage.standalone.apiserver.edits import Editor
from ullage.standalone.apiserver.health import health
from ullage.standalone.apiserver.names import path_segment
from ullage.standalone.apiserver.openapi.documents import OpenApi
from ullage.standalone.apiserver.protobuf import Expected
from ullage.standalone.apiserver.reads import Reader
from ullage.standalone.apiserver.request import Request, decode_body
from ullage.standalone.apiserver.resources import Registry, Resource
from ullage.standalone.apiserver.status import (
    bad_request,
    json_string,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    not_found,
    wrong_method,
)
from ullage.standalone.apiserver.subresources import SPECIAL, Subresources
from ullage.standalone.apiserver.watches import Watcher

_NAMED = frozenset({"get", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Handlers:
    reader: Reader
    watcher: Watcher
    editor: Editor
    deleter: Deleter
    subresources: Subresources


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
    ) -> None:
        self._registry = registry
        self._handlers = handlers
        self._authorizer = authorizer
        self._tokens = tokens
        self._discovery = discovery
        self._openapi = openapi
        self._documents = documents  # path to what never changes

    async def handle(self, request: Request, peer_certificate: bytes | None) -> Answer | Stream:
        user = authenticate(request.headers, peer_certificate, tokens=self._tokens, warn=request.warnings.append)
        asked = _attributes(request)
        wanted = requested(request.header_list)
        if wanted is not None:
            user = impersonate(user, wanted, authorizer=self._authorizer)
        decision = self._authorizer.authorize(user, asked)
        if not decision.allowed:
            raise denied(user, asked, decision)
        if request.target.resource:
            return await self._resource(request, user)
        return self._path(request)

    # --- objects ---

    async def _resource(self, request: Request, user: User) -> Answer | Stream:
        target = request.target
        resource = self._registry.find(target.group, target.version, target.resource)
        if resource is None or (target.namespace and not resource.namespaced and resource.plural != "namespaces"):
            if self._registry.builtin_group(target.group):
                raise no_such_path()
            return page_not_found()
        if warning := deprecation(resource):
            request.warnings.append(warning)
        if request.method == "HEAD":
            raise wrong_method()
        if target.subresource:
            return await self._subresource(request, resource, user)
        if target.name and (faults := path_segment(target.name)):
            raise bad_request(f"Name parameter invalid: {json_string(target.name)}: {faults[0]}")
        if resource.group in TRANSIENT:
            return self._review(request, resource, user)
        whole = resource.namespaced and not target.namespace  # a path over all namespaces
        if resource.custom is not None:
            return await self._custom(request, resource, user, whole=whole)
        if target.name and not _NAMED.intersection(resource.verbs):
            raise no_such_path()
        if _method_fits(request, resource, whole=whole):
            return await self._verb(request, resource, user)
        raise wrong_method()

    async def _custom(self, request: Request, resource: Resource, user: User, *, whole: bool) -> Answer | Stream:
        """Custom kinds are routed by hand in kube-apiserver, too, and it shows."""
        if whole and request.verb not in ("list", "watch"):
            return page_not_found()
        if request.verb in ("update", "patch") and not request.target.name:
            raise bad_request("name must be provided")
        if request.verb not in resource.verbs:
            raise method_not_allowed(resource.group, resource.plural, request.verb)
        return await self._verb(request, resource, user)

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

    async def _subresource(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        name = request.target.subresource.partition("/")[0]
        sub = resource.subresources.get(name)
        if sub is None or (name != request.target.subresource and name != "proxy"):
            if resource.custom is not None:
                raise not_found(resource.group, resource.plural, request.target.name)
            raise no_such_path()
        if request.verb not in sub.verbs:
            if resource.custom is not None:
                raise method_not_allowed(resource.group, resource.plural, request.verb)
            raise wrong_method()
        if name in SPECIAL:
            return await self._handlers.subresources.answer(request, resource, user)
        return await self._verb(request, resource, user)

    def _review(self, request: Request, resource: Resource, user: User) -> Answer:
        if request.verb != "create" or request.target.name:
            raise wrong_method()
        body = decode_body(request, Expected(resource.api_version, resource.kind))
        asked = reviews.Asked(user, request.target.namespace, self._handlers.reader.now(), self._authorizer, self._tokens)
        return json_answer(reviews.REVIEWS[resource.group, resource.plural](body, asked), 201)

    # --- everything else ---

    def _path(self, request: Request) -> Answer:
        probe = health(request.path, verbose="verbose" in request.query, excluded=request.query.get("exclude", ()))
        if probe is not None:
            return probe
        path = request.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise wrong_method()
        if path == "/version":
            return json_answer(version_info())
        if path == "/":
            return json_answer(root_paths(self._registry))
        if path in self._documents:
            return self._document(self._documents[path])
        if path.startswith("/openapi/"):
            found = self._openapi.answer(
                path,
                accept=request.headers.get("accept", ""),
                if_none_match=request.headers.get("if-none-match", ""),
                wanted=request.param("hash"),
            )
            return self._document(found) if found is not None else Answer(404, b"", "")
        if path == "/api" or path == "/apis" or path.startswith(("/api/", "/apis/")):
            return self._discover(request, path)
        return page_not_found()

    def _discover(self, request: Request, path: str) -> Answer:
        accept = request.headers.get("accept", "")
        if accept and "json" not in accept and "*" not in accept and "yaml" not in accept:
            raise not_acceptable(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
        found = self._discovery.answer(path, accept=accept, if_none_match=request.headers.get("if-none-match", ""))
        if found is None and len(path.split("/")) > 3:
            raise no_such_path()
        return self._document(found)

    def _document(self, found: Document | None) -> Answer:
        if found is None:
            return page_not_found()
        headers = tuple((name, value) for name, value in found.headers() if name != "content-type")
        return Answer(found.status, found.body, found.content_type, headers)


def _attributes(request: Request) -> Attributes:
    target = request.target
    if not target.resource:
        return Attributes(verb=request.method.lower(), path=request.path)
    return Attributes(
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
    if request.verb not in ("list", "watch") or "fieldSelector" not in request.query:
        return ""
    try:
        name = FieldSelector.parse(request.param("fieldSelector")).exact("metadata.name") or ""
    except SelectorError:
        return ""  # the handler has the words for it
    return "" if path_segment(name) else name


def _method_fits(request: Request, resource: Resource, *, whole: bool) -> bool:
    """Whether the resource knows the verb here: over all namespaces only lists and watches make sense."""
    verb, name = request.verb, request.target.name
    if verb not in resource.verbs:
        return False
    if whole:
        return verb in ("list", "watch") and not name
    if verb == "create":
        return not name
    if verb in ("update", "patch"):
        return bool(name)
    return True


def page_not_found() -> Answer:
    return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
