"""A slice whose objects are ConfigMaps: each takes one piece from the ledger of the tenant that its label names.

The processes of a product that has it: webhook replicas (or ones that do nothing, to compare with) and the leader. They say on
standard output what they have measured when a line comes in on standard input, and end when that does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

import uvloop

from bench.ledger.meters import Lateness, Recorder
from ullage.admission.certificates import Terms
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

MAPS = Kind("", "v1", "ConfigMap", "configmaps", Object, whole=False, status=False)
CELL = Cell("maps", "pieces")
TENANT = "bench.ullage.io/tenant"
PIECE = Takings({CELL: Quantity.of(1)})
HOOK = "maps"


BY_TENANT = Evaluator[Object](ledger_of=lambda found: found.metadata.labels.get(TENANT, ""), takes=lambda found: PIECE)


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


async def nothing(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    told(dict)
    await serve(args, client, stop, answer=admit_all)


async def ledger(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    maps = Cache(client, MAPS)
    ledgers = Cache(client, LEDGERS, namespace=NAMESPACE)
    recorder = Recorder()
    told(recorder.report)
    async with AsyncExitStack() as stack:
        view = KindView(maps, BY_TENANT, client=client)
        service = await stack.enter_async_context(Service(client, Sources(view), metrics=recorder, ledgers=ledgers))
        reading = [asyncio.create_task(cache.run()) for cache in (maps, ledgers)]
        stack.callback(lambda: [task.cancel() for task in reading])

        async def admit(review: Review) -> Decision:
            asked = charge_of(review, MAPS, BY_TENANT)
            if asked is None:
                return Decision.allow()
            return decision(await service.decide(asked.ledger, asked.charge, deadline=review.deadline))

        await asyncio.gather(maps.synced.wait(), ledgers.synced.wait())
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


ROLES = {"nothing": nothing, "ledger": ledger, "leader": leader}


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
