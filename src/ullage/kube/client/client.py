"""The typed client: verbs of the Kubernetes API on the kinds of `kinds.py`.

It holds no state but connections and credentials, and never throttles itself: servers that are under pressure say so, and
are obeyed (`transport.py`). Whoever may not write any more (a leader without its lease) hands in a guard, which is asked right
before the bytes of each write leave the process.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Self, TypeVar

import msgspec

from ullage.clock import Clock
from ullage.kube.client import codec
from ullage.kube.client.codec import WatchEvent
from ullage.kube.client.config import Config
from ullage.kube.client.reader import PAGE, WATCH_SECONDS, Each, Listing, Reader
from ullage.kube.client.transport import JSON_TYPE, Call, Guard, Retries, Transport
from ullage.kube.client.websockets.remote_command import ExecOutcome, ExecRequest, run_command
from ullage.kube.errors import Conflict, Gone, Invalid, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import Json

__all__ = ["Client", "Listing", "Reader", "Retries", "WatchEvent"]

T = TypeVar("T", bound=Object)
# Only looked for by name: `builtin/` has the kind with what is in it.
_DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Object, namespaced=False, whole=False
)


class ServedResource(msgspec.Struct, frozen=True):
    """One line of what a server says that it serves."""

    name: str  # the plural; with a subresource, `pods/status`
    kind: str = ""
    namespaced: bool = False


class Client:
    """`async with Client(Config.load()) as client: …`"""

    def __init__(
        self,
        config: Config,
        *,
        user_agent: str = "ullage",
        guard: Guard | None = None,
        retries: Retries | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self._transport = Transport(config, user_agent=user_agent, retries=retries, clock=clock)
        self._user_agent = user_agent
        self._guard = guard

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.__aexit__()

    def guarded(self, guard: Guard | None) -> Client:
        """The same connections with another guard (None: no guard). It is open as long as the client it came from."""
        twin = object.__new__(type(self))
        twin.config, twin._transport, twin._user_agent = self.config, self._transport, self._user_agent
        twin._guard = guard
        return twin

    def beside(self, config: Config) -> Client:
        """A client of another cluster, under the same guard. It is opened and closed by itself."""
        return Client(config, user_agent=self._user_agent, guard=self._guard)

    # -- reading

    @property
    def late(self) -> float:
        """For how many seconds watches have brought more than is read of them; 0 where all is read at once."""
        return self._transport.intake.late if self._transport.intake is not None else 0.0

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return codec.decode(kind, await self._transport.call(Call("GET", codec.object_path(kind, name, namespace))))

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        """Like `get`, but None where the server says that there is no object of this name.

        Any other 404 is raised: of a kind or version that is not served, or of a proxy. It says nothing about the object.
        """
        try:
            return await self.get(kind, name, namespace)
        except NotFound as error:
            if not error.names(kind.group, kind.plural, name):
                raise
            return None

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        limit: int = PAGE,
        each: Each[T] | None = None,
    ) -> Listing[T]:
        """All objects, page by page. `each` sees every object right after it is decoded, before the next page comes.

        If the server forgets the list's version between two pages, it begins anew without pages: such a list cannot expire.
        `each` may see an object twice then.
        """
        query = _selection(labels, fields, resource_version)
        try:
            return await self._pages(kind, namespace, {**query, **({"limit": str(limit)} if limit else {})}, each)
        except Gone:
            if not limit or self.config.limits is not None:  # all at once may be too much of an answer
                raise
            return await self._pages(kind, namespace, query, each)

    async def _pages(self, kind: Kind[T], namespace: str, query: dict[str, str], each: Each[T] | None) -> Listing[T]:
        path, intake = codec.collection_path(kind, namespace), self._transport.intake
        items: list[T] = []
        for number in itertools.count(1):
            page = codec.decode_page(kind, await self._transport.call(Call("GET", path, query)))
            found = page.items or []
            if each is not None:
                for item in found:
                    each(item)
            items.extend(found)
            if intake is not None:
                await intake.page(f"GET {path}", number, objects=len(found))
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query = {**query, "continue": page.metadata.continue_}
            query.pop("resourceVersion", None)  # the token holds the version; the server refuses both together
            query.pop("resourceVersionMatch", None)
        raise AssertionError("a list ends with its last page")

    async def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout: float = WATCH_SECONDS,
        bookmarks: bool = True,
        initial_events: bool = False,
        heard: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events after `resource_version`, until the server ends the watch after `timeout` seconds. ERROR events are raised.

        With `initial_events` everything that is there comes first, as ADDED, and then a bookmark that says so. A reader that
        stops early closes the watch with `contextlib.aclosing`. `heard` is called whenever bytes come, also those of a part.
        """
        query = _selection(labels, fields, resource_version)
        query |= {"watch": "1", "timeoutSeconds": str(max(1, int(timeout)))}
        query.pop("resourceVersionMatch", None)
        if bookmarks or initial_events:
            query["allowWatchBookmarks"] = "true"
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        call = Call("GET", codec.collection_path(kind, namespace), query)
        async with aclosing(self._transport.lines(call, seconds=timeout, heard=heard)) as lines:
            async for line in lines:
                yield codec.decode_event(kind, line, what=call.what)

    async def served(self, kind: Kind[Any]) -> bool:
        """Whether the server serves the kind, in this version, right now."""
        return any(resource.name == kind.plural for resource in await self.resources(kind.group, kind.version) or ())

    async def resources(self, group: str, version: str) -> Sequence[ServedResource] | None:
        """What the server serves of a group in a version, subresources among it; None: it knows no such version."""
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            return msgspec.json.decode(await self._transport.call(Call("GET", root)), type=_Resources).resources
        except NotFound:
            return None

    async def latest(self, kind: Kind[Any], namespace: str = "", *, fields: str = "") -> str:
        """The version that the server has reached: every change of the kind that was made before this was asked is older.
        `fields` are for those who may list no more than these."""
        path = codec.collection_path(kind, namespace)
        query = {"limit": "1", **({"fieldSelector": fields} if fields else {})}
        page = codec.decode_page(kind, await self._transport.call(Call("GET", path, query)))
        return page.metadata.resource_version

    async def absent(self, kind: Kind[Any]) -> str:
        """The version at which the server had no such kind: neither served nor defined. Empty where it has one, or may have.

        A 404 is no proof: a definition may be there with its version not served, and its objects with it.
        """
        if await self.served(kind):
            return ""
        definitions = await self.list(_DEFINITIONS, fields=f"metadata.name={kind.name}")
        return "" if definitions.items else definitions.resource_version

    # -- writing

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        path = codec.collection_path(kind, obj.metadata.namespace, needed=True)
        return await self._write(kind, "POST", path, codec.encode(kind, obj), query=_dry(dry_run))

    async def try_create(self, kind: Kind[Any], body: Json, namespace: str = "") -> None:
        """A create that stores nothing; raises what a real one would raise. The body is sent whole, fields that no type of ours
        has included."""
        path = codec.collection_path(kind, namespace, needed=True)
        await self._transport.call(Call("POST", path, _dry(True), codec.encode_json(body), JSON_TYPE, self._guard))

    async def update(self, kind: Kind[T], obj: T) -> T:
        """PUT: the whole object, on condition that it still has the resourceVersion that it was read with."""
        return await self._put(kind, obj, "")

    async def update_status(self, kind: Kind[T], obj: T) -> T:
        """PUT of the status: nothing else of the object is changed, and its resourceVersion is the condition."""
        return await self._put(kind, obj, "status")

    async def put_status(self, kind: Kind[Any], metadata: Meta, body: bytes) -> Meta:
        """PUT of a status alone, as `codec.encode_status` gives it for the metadata. What comes back is the metadata with the
        new version: all else is as it was, or as it was sent. Cheaper for both sides than the whole object, if that is large.
        """
        self._check_put(kind, metadata, "status")
        path = codec.object_path(kind, metadata.name, metadata.namespace, "status")
        answer = await self._transport.call(Call("PUT", path, body=body, guard=self._guard, accept=codec.METADATA_ONLY))
        plain = Kind(kind.group, kind.version, kind.kind, kind.plural, Object)
        return codec.decode(plain, answer).metadata

    async def _put(self, kind: Kind[T], obj: T, subresource: str) -> T:
        self._check_put(kind, obj.metadata, subresource)
        path = codec.object_path(kind, obj.metadata.name, obj.metadata.namespace, subresource)
        return await self._write(kind, "PUT", path, codec.encode(kind, obj))

    @staticmethod
    def _check_put(kind: Kind[Any], metadata: Meta, subresource: str) -> None:
        if subresource == "status" and not kind.status:
            raise TypeError(f"{kind.name} has no status subresource")
        if not kind.whole:
            raise TypeError(f"{kind.name} is decoded partly: a PUT would drop the rest of the object; patch it instead")
        if not metadata.resource_version:
            raise ValueError(f"{kind.name} {metadata.name}: an update needs the resourceVersion that was read")

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json_patch: Sequence[Json] | None = None,
        apply: Mapping[str, Any] | None = None,
        subresource: str = "",
        field_manager: str = "ullage",
        force: bool = False,
        dry_run: bool = False,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        """One kind of patch. With `uid` or `resource_version`, it is a Conflict if the object is another or has changed.

        An apply that finds no object makes one, unless a `uid` is demanded.
        """
        if subresource and uid and not resource_version:
            # kube-apiserver ignores the uid in a patch of a custom object's status; a version belongs to one object only.
            raise ValueError(
                f"{kind.name} {name}: on {subresource}, a uid is a condition only together with a resource_version"
            )
        content_type, body = codec.patch_body(
            kind, name, merge=merge, json_patch=json_patch, apply=apply, uid=uid, resource_version=resource_version
        )
        query = _dry(dry_run) | {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        path = codec.object_path(kind, name, namespace, subresource)
        try:
            return await self._write(kind, "PATCH", path, body, query=query, content_type=content_type)
        except Invalid as error:
            if uid and any(cause.field == "metadata.uid" for cause in error.causes):
                # To the server another uid is an edit of an immutable field; to us the object is not the one that was meant.
                raise Conflict(error.message, code=error.code, reason=error.reason, details=error.details) from error
            raise

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        dry_run: bool = False,
    ) -> None:
        """Asks for deletion; the object may stay for its finalizers. `propagation`: Background, Foreground or Orphan."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            options["preconditions"] = {key: value for key, value in wanted.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        path = codec.object_path(kind, name, namespace)
        await self._transport.call(Call("DELETE", path, body=codec.encode_json(options), guard=self._guard))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON_TYPE,
    ) -> bytes:
        """Anything else: reviews, discovery, other subresources. The path is taken as it is."""
        if not path.startswith("/"):
            raise ValueError(f"{path}: a path begins with /")
        return await self._transport.call(Call(method, path, query, body, content_type, self._guard))

    async def run_command(self, request: ExecRequest) -> ExecOutcome:
        """Runs a command in a container. Raises as `remote_command` says."""
        return await run_command(self._transport, request, guard=self._guard)

    async def _write(
        self,
        kind: Kind[T],
        method: str,
        path: str,
        body: bytes,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON_TYPE,
    ) -> T:
        return codec.decode(kind, await self._transport.call(Call(method, path, query, body, content_type, self._guard)))


class _Resources(msgspec.Struct):
    resources: list[ServedResource] = []


def _selection(labels: str, fields: str, resource_version: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version}
    if resource_version not in {"", "0"}:
        query["resourceVersionMatch"] = "NotOlderThan"
    return {key: value for key, value in query.items() if value}


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
