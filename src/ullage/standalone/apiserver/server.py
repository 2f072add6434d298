"""The composition of the server: every part is made and joined here, and here alone."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import secrets
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import uvicorn

from ullage import pki
from ullage.clock import Clock, SystemClock
from ullage.http1 import bounded_server
from ullage.standalone.apiserver.about.discovery import Discovery
from ullage.standalone.apiserver.about.health import Health
from ullage.standalone.apiserver.about.openapi.documents import OpenApi
from ullage.standalone.apiserver.admission.builtin import BuiltinAdmission
from ullage.standalone.apiserver.admission.policies.enforce import Policies
from ullage.standalone.apiserver.admission.quotas.enforce import Quotas
from ullage.standalone.apiserver.admission.webhooks.dispatch import Webhooks
from ullage.standalone.apiserver.auth.bootstrap import bootstrap_objects, reconciled
from ullage.standalone.apiserver.auth.credentials import Credentials, kubeconfig, prepare
from ullage.standalone.apiserver.auth.escalation import Escalation
from ullage.standalone.apiserver.auth.rbac import GROUP as RBAC
from ullage.standalone.apiserver.auth.rbac import Authorizer
from ullage.standalone.apiserver.auth.signing_requests import SigningRequests
from ullage.standalone.apiserver.auth.tokens import Tokens, openid_documents
from ullage.standalone.apiserver.auth.users import MASTERS, SELF, User
from ullage.standalone.apiserver.controllers.crds import CrdController
from ullage.standalone.apiserver.controllers.garbage_collector import GarbageCollector
from ullage.standalone.apiserver.controllers.namespaces import NamespaceController
from ullage.standalone.apiserver.controllers.resource_quotas import ResourceQuotaController
from ullage.standalone.apiserver.controllers.role_aggregation import RoleAggregation
from ullage.standalone.apiserver.controllers.root_ca import RootCaPublisher
from ullage.standalone.apiserver.handlers.calls import Call, Source
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.handlers.edits import Editor
from ullage.standalone.apiserver.handlers.exec import Exec
from ullage.standalone.apiserver.handlers.kind_rules import KindRules
from ullage.standalone.apiserver.handlers.reads import Reader
from ullage.standalone.apiserver.handlers.subresources import Subresources
from ullage.standalone.apiserver.handlers.watches import Watcher
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.http.app import App
from ullage.standalone.apiserver.http.connections import HANDSHAKE_SECONDS, KEEP_ALIVE, Connection
from ullage.standalone.apiserver.http.router import Handlers, Router
from ullage.standalone.apiserver.kinds.builtin import EMPTY_GROUPS, builtin_resources
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.kinds.service_addresses import ServiceAddresses
from ullage.standalone.apiserver.limits.deliveries import Deliveries
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.deadlines import remaining
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.schema import definitions
from ullage.standalone.apiserver.schema.builtin import compile_builtin
from ullage.standalone.apiserver.settings import Settings
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.event_expiry import EventExpiry
from ullage.standalone.apiserver.storage.maintenance import Maintenance
from ullage.standalone.apiserver.storage.store import Store
from ullage.times import timestamp

logger = logging.getLogger(__name__)

ADMIN = User("admin", groups=(MASTERS,))
QUIET = internal("kube-apiserver")
STOP_SECONDS = 5
GOODBYE_SECONDS = 0.5


@dataclass(slots=True)
class Server:
    """All parts, joined. `app` answers; `work` runs the controllers and the store's maintenance until it is cancelled."""

    settings: Settings
    store: Store
    registry: Registry
    watcher: Watcher
    webhooks: Webhooks
    writer: Writer
    app: App
    controllers: tuple[
        CrdController, GarbageCollector, NamespaceController, RootCaPublisher, RoleAggregation, ResourceQuotaController
    ]
    maintenance: Maintenance
    clock: Clock
    health: Health

    async def work(self) -> None:
        self.health.started = True
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.queue.run())
            group.create_task(self.maintenance.run())

    async def bootstrap(self, port: int) -> None:
        """Creates what every cluster starts with; policy that lacks something is completed."""
        for obj in bootstrap_objects(port=port):
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = self.registry.by_kind(group, version, obj["kind"])
            if resource is None:
                raise AssertionError(f"{obj['kind']} is always served")
            await self._ensure(resource, obj)

    async def _ensure(self, resource: Resource, obj: Json) -> None:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        found = self.store.get(resource.storage, namespace, name)
        call = Call(SELF, QUIET, "CreateOptions")
        try:
            if found is None:
                await self.writer.insert(resource, obj, call, namespace=namespace)
            elif resource.group == RBAC and (wanted := reconciled(obj, found.obj())) is not None:
                await self.writer.modify(resource, lambda live: wanted, call, namespace=namespace, name=name)
        except ApiError as error:
            # A webhook whose server is not up yet, perhaps because it waits for this one: better to start without.
            logger.warning("%s %s is missing: %s", obj["kind"], name, error.message)


def compose(settings: Settings, credentials: Credentials, store: Store, clock: Clock, *, address: str) -> Server:
    kinds_known = definitions.load()
    registry = Registry(builtin_resources(kinds_known, lambda name: compile_builtin(kinds_known, name)), empty=EMPTY_GROUPS)
    authorizer = Authorizer(store)
    health = Health(lambda: bool(store.broken))
    source = Source(clock, lambda: str(uuid.uuid4()), _suffix)
    webhooks = _webhooks(store, registry)
    admission = BuiltinAdmission(store, Escalation(authorizer), SigningRequests(authorizer))
    kinds = KindRules(ServiceAddresses(store))
    deliveries = Deliveries()
    reader = Reader(store, clock, deliveries)
    quotas = Quotas(store, registry, clock)
    writer = Writer(store, admission=admission, webhooks=webhooks, kinds=kinds, source=source, quotas=quotas)
    deleter = Deleter(store, admission=admission, webhooks=webhooks, kinds=kinds, source=source, reader=reader)
    watcher = Watcher(
        store, clock, lambda resource: registry.find(resource.group, resource.version, resource.plural), deliveries
    )
    subresources = Subresources(
        store,
        registry=registry,
        reader=reader,
        writer=writer,
        deleter=deleter,
        key=credentials.signing,
        source=source,
    )
    tokens = Tokens(credentials.signing, lookup=subresources.lookup, clock=clock, static={credentials.admin_token: ADMIN})
    editor = Editor(store, registry=registry, writer=writer, reader=reader, authorizer=authorizer, source=source)
    execs = Exec(store, reader=reader, webhooks=webhooks, authorizer=authorizer, context=credentials.kubelet_client)
    router = Router(
        registry=registry,
        handlers=Handlers(reader, watcher, editor, deleter, subresources, execs),
        authorizer=authorizer,
        tokens=tokens,
        discovery=Discovery(registry, address),
        openapi=OpenApi(registry, kinds_known),
        documents=openid_documents(credentials.signing, address),
        health=health,
    )
    controllers = (
        CrdController(store, registry=registry, writer=writer, deleter=deleter, source=source),
        GarbageCollector(store, registry=registry, writer=writer, deleter=deleter),
        NamespaceController(store, registry=registry, writer=writer, deleter=deleter, source=source),
        RootCaPublisher(store, registry=registry, writer=writer, certificate=credentials.authority.certificate),
        RoleAggregation(store, registry=registry, writer=writer, source=source),
        ResourceQuotaController(store, quotas),
    )
    app = App(router.handle, request_timeout=settings.request_timeout)
    maintenance = Maintenance(
        store, clock, history=settings.history, expiry=EventExpiry(store, clock, seconds=settings.event_ttl)
    )
    return Server(settings, store, registry, watcher, webhooks, writer, app, controllers, maintenance, clock, health)


def _suffix() -> str:
    """Five characters without vowels, so that no word comes out."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))


def _webhooks(store: Store, registry: Registry) -> Webhooks:
    group = "admissionregistration.k8s.io"
    mutating, validating = f"mutatingwebhookconfigurations.{group}", f"validatingwebhookconfigurations.{group}"
    known: tuple[tuple[int, int], tuple[list[Json], list[Json]]] = ((-1, -1), ([], []))

    def configurations() -> tuple[list[Json], list[Json]]:
        nonlocal known
        key = store.touched(mutating), store.touched(validating)
        if known[0] != key:
            known = key, ([entry.obj() for entry in store.items(mutating)], [entry.obj() for entry in store.items(validating)])
        return known[1]

    def namespace_of(name: str) -> Json | None:
        entry = store.get("namespaces", "", name)
        return entry.obj() if entry else None

    return Webhooks(configurations, namespace_of, registry, policies=Policies(store, registry).validate)


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """The data directory's lock. Raises BlockingIOError while another process has it."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(settings.data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        started = timestamp(SystemClock().now())
        text = json.dumps({"pid": os.getpid(), "started": started}).encode()
        # Over the old text in one write, blanks over its rest: whoever reads it meanwhile finds one or the other, whole.
        os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size), 0)
        yield
    finally:
        os.close(descriptor)


def listen(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    found.listen(1024)
    return found


@contextlib.asynccontextmanager
async def running(settings: Settings, sock: socket.socket) -> AsyncIterator[tuple[Server, asyncio.Task[None]]]:
    """The server, serving on the socket. The task ends when it has stopped."""
    clock = SystemClock()
    port = sock.getsockname()[1]
    credentials = prepare(settings.pki, clock.now())
    async with contextlib.AsyncExitStack() as stack:
        store = Store(Database(settings.database, durable=not settings.ephemeral), settings.limits, remaining=remaining)
        stack.push_async_callback(store.close)
        server = compose(settings, credentials, store, clock, address=f"127.0.0.1:{port}")
        stack.push_async_callback(server.webhooks.close)
        await server.bootstrap(port)
        pki.write_private(settings.kubeconfig, kubeconfig(credentials, port))
        http = _http(server.app, credentials, settings)
        work = asyncio.create_task(server.work())
        stack.push_async_callback(_end, work)
        # It never ends by itself. Should it, then a server that has stopped is better than one whose controllers do not run.
        work.add_done_callback(lambda _: setattr(http, "should_exit", True))
        serving = asyncio.create_task(http.serve(sockets=[sock]))
        stack.push_async_callback(_stop, server, http, serving)
        while not http.started and not serving.done():  # noqa: ASYNC110  uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)
        yield server, serving


def _http(app: App, credentials: Credentials, settings: Settings) -> uvicorn.Server:
    return bounded_server(
        app,
        stop_seconds=STOP_SECONDS,
        protocol=Connection,
        handshake_seconds=HANDSHAKE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE,
        ssl_certfile=credentials.certificate,
        ssl_keyfile=credentials.key,
        ssl_ca_certs=str(settings.pki / "ca.crt"),
        ssl_cert_reqs=ssl.CERT_OPTIONAL,
    )


async def _stop(server: Server, http: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    """Watches end first: uvicorn waits for every answer. It also waits for every client to say goodbye, which one that only
    keeps a connection for later does not do: after a moment those are hung up on."""
    server.health.stopping = True
    server.watcher.close()
    http.should_exit = True
    await asyncio.wait({serving}, timeout=GOODBYE_SECONDS)
    for connection in list(http.server_state.connections):
        cycle = getattr(connection, "cycle", None)
        if cycle is None or cycle.response_complete:
            connection.transport.abort()
    await serving


async def _end(work: asyncio.Task[None]) -> None:
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
