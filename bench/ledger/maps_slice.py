"""A slice whose objects are ConfigMaps: each takes one piece from the ledger of the tenant that its label names, and where
another label says so, from one of many accounts besides.

The processes of a product that has it: webhook replicas and the leader; or, to compare with, replicas and a leader that watch
the same and do nothing. They say on standard output what they have measured when a line comes in on standard input, and end
when that does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Any

import uvloop

from bench.ledger.meters import Connections, Lateness, Recorder
from ullage.admission.run import Settings as WebhookSettings
from ullage.admission.run import run_webhook
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Answer, Decision, Hook, Review, Target
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.charges import charge_of
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service, decision
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import Evaluator, KindView
from ullage.quantity import Quantity
from ullage.serving.certificates import Terms

MAPS = Kind("", "v1", "ConfigMap", "configmaps", Object, whole=False, status=False)
CELL = Cell("maps", "pieces")
TENANT = "bench.ullage.io/tenant"
ACCOUNT = "bench.ullage.io/account"
PIECE = Takings({CELL: Quantity.of(1)})
HOOK = "maps"


def account_of(number: str) -> str:
    return f"maps/machine/machine-{number}"


def taken(found: Object) -> Takings:
    account = found.metadata.labels.get(ACCOUNT)
    return PIECE if account is None else _pieces(account)


@cache
def _pieces(account: str) -> Takings:
    return Takings({CELL: Quantity.of(1), Cell(account_of(account), CELL.resource): Quantity.of(1)})


BY_TENANT = Evaluator[Object](ledger_of=lambda found: found.metadata.labels.get(TENANT, ""), takes=taken)


async def admit_all(review: Review) -> Decision:
    return Decision.allow()


async def serve(args: argparse.Namespace, client: Client, stop: asyncio.Event, *, answer: Answer) -> None:
    target = (Target.of(MAPS, "CREATE", "UPDATE"),)
    hook = Hook(name=HOOK, phase="validate", targets=target, answer=answer, only_in=(args.namespace,))
    settings = WebhookSettings(
        port=args.port,
        namespace=NAMESPACE,
        name=args.namespace,
        terms=Terms(hosts=("localhost",)),
        test_every=3600.0,
        drain=0.1,
        stop_seconds=1,
    )
    await run_webhook([hook], client, settings, stop=stop, serves=lambda host, port: say(port=port))


@asynccontextmanager
async def reading(*caches: Cache[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.run()) for one in caches]
    await asyncio.gather(*(one.synced.wait() for one in caches))
    yield
    for task in tasks:
        task.cancel()


async def nothing(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    connections = Connections()
    told(lambda: {"opened": connections.opened})
    async with reading(Cache(client, MAPS), Cache(client, LEDGERS, namespace=NAMESPACE)):
        await serve(args, client, stop, answer=admit_all)


async def onlooker(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    """Watches what a leader does."""
    told(dict)
    async with reading(Cache(client, MAPS), Cache(client, LEDGERS, namespace=NAMESPACE)):
        say(leads=False)
        await stop.wait()


async def ledger(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    maps = Cache(client, MAPS)
    ledgers = Cache(client, LEDGERS, namespace=NAMESPACE)
    recorder, connections = Recorder(), Connections()
    told(lambda: {**recorder.report(), "opened": connections.opened})
    async with AsyncExitStack() as stack:
        view = KindView(maps, BY_TENANT, client=client)
        service = await stack.enter_async_context(Service(client, Sources(view), metrics=recorder, ledgers=ledgers))
        await stack.enter_async_context(reading(maps, ledgers))

        async def admit(review: Review) -> Decision:
            asked = charge_of(review, MAPS, BY_TENANT)
            if asked is None:
                return Decision.allow()
            return decision(await service.decide(asked.ledger, asked.charge, deadline=review.deadline))

        await serve(args, client, stop, answer=admit)


async def leader(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    maps = Cache(client, MAPS)
    ledgers = Cache(client, LEDGERS, namespace=NAMESPACE)
    lateness = Lateness(args.observe)
    ledgers.handle(lateness.change)
    recorder = Recorder()
    told(lambda: {**lateness.report(), "folds": recorder.report()["folds"]})
    folder = Folder(client, Sources(KindView(maps, BY_TENANT, client=client)), ledgers, metrics=recorder)
    running = asyncio.create_task(controller.run([maps, ledgers], [folder.controller()], stop=stop))
    await asyncio.gather(maps.synced.wait(), ledgers.synced.wait())
    say(leads=True)
    await running


ROLES = {"nothing": nothing, "onlooker": onlooker, "ledger": ledger, "leader": leader}


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def told(report: Callable[[], dict[str, object]]) -> None:
    """Answers every line with a report. When the lines end, so do we: whoever started us is gone."""

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 100):
            os._exit(0)
        say(**report())

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), heard)


async def main(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Client(Config.load(args.kubeconfig), user_agent=f"bench-{args.role}") as client:
        await ROLES[args.role](args, client, stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--observe", default="", help="the ledger whose attempts the leader follows")
    uvloop.run(main(parser.parse_args()))
