"""A slice that exists to try the ledger: cups of some size, admitted by webhook replicas, folded by a leader.

Each is a process that a test can kill. Two further hooks get in the way of cups that ask for it: one refuses them, one never
answers in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress

import uvloop

from ullage.admission.certificates import Terms
from ullage.admission.run import Settings as WebhookSettings
from ullage.admission.run import run_webhook
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.lease import Elector
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.charges import charge_of
from ullage.ledger.service.batcher import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service, decision
from ullage.ledger.service.views import Evaluator, KindView
from ullage.quantity import Quantity

GROUP = "ledger.e2e.example.com"
CELL = Cell("cups", "pieces")
STAMP = "e2e.ullage.io/stamp"
TROUBLE = "e2e.ullage.io/trouble"
TIMING = Timing(duration=3, renew_within=2, retry=0.4)
NEXT_STEP = "delete a cup"


class CupSpec(Value):
    """What the cup should be."""

    size: int = 1
    """How much it takes."""


class Cup(Object):
    """Cup takes its size from the ledger of its namespace."""

    spec: CupSpec = CupSpec()
    """What the cup should be."""


CUPS = Kind(GROUP, "v1", "Cup", "cups", Cup, status=False)


def ledger_name(namespace: str) -> str:
    return f"ns-{namespace}"


def taken(cup: Cup) -> Takings:
    """An error where its stamp cannot be read."""
    if STAMP in cup.metadata.annotations:
        raise ValueError("no stamp")
    return Takings({CELL: Quantity.of(cup.spec.size)})


BY_NAMESPACE = Evaluator[Cup](ledger_of=lambda cup: ledger_name(cup.metadata.namespace), takes=taken)


def hooks(service: Service, namespace: str) -> list[Hook]:
    async def admit(review: Review) -> Decision:
        asked = charge_of(review, CUPS, BY_NAMESPACE)
        if asked is None:
            return Decision.allow()
        return decision(await service.decide(asked.ledger, asked.charge, deadline=review.deadline), next_step=NEXT_STEP)

    async def veto(review: Review) -> Decision:
        return Decision.refuse("vetoed")

    async def dawdle(review: Review) -> Decision:
        await asyncio.sleep(30)
        return Decision.allow()

    made, here = (Target.of(CUPS, "CREATE", "UPDATE"),), (namespace,)
    return [
        Hook(name="cups", phase="validate", targets=made, answer=admit, only_in=here),
        Hook(name="veto", phase="validate", targets=made, answer=veto, only_in=here, labels={TROUBLE: "veto"}),
        Hook(
            name="dawdle", phase="validate", targets=made, answer=dawdle, only_in=here, labels={TROUBLE: "dawdle"}, timeout=30
        ),
    ]


async def webhook(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    cups = Cache(client, CUPS, namespace=args.namespace)
    ledgers = Cache(client, LEDGERS, namespace=NAMESPACE)
    settings = WebhookSettings(
        port=args.port,
        namespace=args.namespace,
        name=f"e2e-{args.namespace}",
        terms=Terms(hosts=("localhost",)),
        look_every=1.0,
        test_every=3600.0,
        drain=0.5,
        stop_seconds=5,
    )
    async with AsyncExitStack() as stack:
        view = KindView(cups, BY_NAMESPACE, client=client)
        service = await stack.enter_async_context(Service(client, [view], settings=patience(args), ledgers=ledgers))
        reading = [asyncio.create_task(cache.run()) for cache in (cups, ledgers)]
        stack.callback(lambda: [task.cancel() for task in reading])
        await run_webhook(
            hooks(service, args.namespace),
            client,
            settings,
            stop=stop,
            checks={"cups": cups.synced.is_set, "ledgers": ledgers.synced.is_set},
            serves=lambda host, port: say(port=port),
        )


async def leader(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    async def work() -> None:
        cups = Cache(leading, CUPS, namespace=args.namespace)
        ledgers = Cache(leading, LEDGERS, namespace=NAMESPACE)
        folder = Folder(leading, [KindView(cups, BY_NAMESPACE, client=leading)], ledgers, settings=patience(args))
        say(leads=True)
        await controller.run([cups, ledgers], [folder.controller()], stop=stop)

    elector = Elector(client, "ledger", namespace=args.namespace, identity=f"leader-{os.getpid()}", timing=TIMING)
    leading = client.guarded(elector.guard)
    running = asyncio.ensure_future(elector.run(work))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def patience(args: argparse.Namespace) -> Settings:
    return Settings(request_timeout=args.request_timeout, expiry=args.expiry)


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def main(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: os._exit(1))  # it ends when the test does, however that ends
    async with Client(Config.load(args.kubeconfig), user_agent=f"ullage-e2e-{args.role}") as client:
        await (webhook if args.role == "webhook" else leader)(args, client, stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("webhook", "leader"))
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--request-timeout", type=float, required=True)
    parser.add_argument("--expiry", type=float, required=True)
    uvloop.run(main(parser.parse_args()))
