"""Two slices that exist to try the ledger: cups and plates of some size, admitted by webhook replicas, folded by a leader.

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
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

import uvloop

from ullage.admission.run import Settings as WebhookSettings
from ullage.admission.run import run_webhook
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.lease import Elector, own_identity
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.charging.stamps import STAMP as CHARGE
from ullage.ledger.charging.stamps import read_stamp, stamped, write_stamp
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.views import Evaluator
from ullage.ledger.slice import ledger
from ullage.quantity import Quantity
from ullage.serving.certificates import Terms

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


class Plate(Object):
    """Plate takes its size from the ledger of its namespace, where cups take theirs."""

    spec: CupSpec = CupSpec()
    """What the plate should be."""


class Bowl(Object):
    """Bowl takes what it is stamped with, which is its size when it is made."""

    spec: CupSpec = CupSpec()
    """What the bowl should be."""


Dish = Cup | Plate

CUPS = Kind(GROUP, "v1", "Cup", "cups", Cup, status=False)
PLATES = Kind(GROUP, "v1", "Plate", "plates", Plate, status=False)
BOWLS = Kind(GROUP, "v1", "Bowl", "bowls", Bowl, status=False)
KINDS: dict[str, Kind[Any]] = {kind.plural: kind for kind in (CUPS, PLATES, BOWLS)}


def ledger_name(namespace: str) -> str:
    return f"ns-{namespace}"


def taken(dish: Dish) -> Takings:
    """An error where its stamp cannot be read."""
    if STAMP in dish.metadata.annotations:
        raise ValueError("no stamp")
    return Takings({CELL: Quantity.of(dish.spec.size)})


BY_NAMESPACE = Evaluator[Any](ledger_of=lambda dish: ledger_name(dish.metadata.namespace), takes=taken)
BY_STAMP = Evaluator[Any](ledger_of=BY_NAMESPACE.ledger_of, takes=lambda bowl: read_stamp(bowl.metadata))


def slice_of(kind: Kind[Any], namespace: str) -> Slice:
    """A slice that charges for a kind, as they all do."""

    def shared(wiring: Wiring) -> Iterable[Charged[Any]]:
        yield registry_of(wiring).register(kind, BY_NAMESPACE)

    def hooks(wiring: Wiring) -> Iterable[Hook]:
        charged = registry_of(wiring).registered(kind)

        async def admit(review: Review) -> Decision:
            return await charged.decide(review, next_step=NEXT_STEP)

        targets, here = (Target.of(kind, "CREATE", "UPDATE"),), (namespace,)
        # Shorter than the requests of the test's server: who waits for room is answered.
        yield Hook(name=kind.plural, phase="validate", targets=targets, answer=admit, only_in=here, timeout=4)

    return Slice(name=kind.plural, kinds=(kind,), shared=Part(make=shared, watches=(kind,)), hooks=Part(make=hooks))


def stamping(namespace: str) -> Slice:
    """A slice whose objects are stamped."""

    def estimate(review: Review) -> Takings:
        return Takings({CELL: Quantity.of(review.object(BOWLS).spec.size)})

    def shared(wiring: Wiring) -> Iterable[Charged[Any]]:
        yield registry_of(wiring).register(BOWLS, BY_STAMP)

    def hooks(wiring: Wiring) -> Iterable[Hook]:
        charged = registry_of(wiring).registered(BOWLS)

        async def stamp(review: Review) -> Decision:
            return stamped(review, BOWLS, estimate(review))

        async def admit(review: Review) -> Decision:
            return await charged.decide(review, next_step=NEXT_STEP, estimate=estimate(review))

        targets, here = (Target.of(BOWLS, "CREATE", "UPDATE"),), (namespace,)
        yield Hook(name="stamp", phase="mutate", targets=targets, answer=stamp, only_in=here, reinvoke=True)
        yield Hook(name="bowls", phase="validate", targets=targets, answer=admit, only_in=here)

    return Slice(name="bowls", kinds=(BOWLS,), shared=Part(make=shared, watches=(BOWLS,)), hooks=Part(make=hooks))


def trouble(namespace: str) -> Slice:
    """Hooks that get in the way of cups that ask for it, and of stamps on bowls: once, or whenever they are put right."""

    def meddle(name: str, *, again: bool) -> Hook:
        async def answer(review: Review) -> Decision:
            new = review.object_json()
            new["metadata"]["annotations"] = {CHARGE: write_stamp(NOTHING)}
            return review.change(review.object_json(), new)

        bowls = (Target.of(BOWLS, "CREATE", "UPDATE"),)
        labels = {TROUBLE: name}
        return Hook(name=name, phase="mutate", targets=bowls, answer=answer, only_in=here, labels=labels, reinvoke=again)

    async def veto(review: Review) -> Decision:
        return Decision.refuse("vetoed")

    async def dawdle(review: Review) -> Decision:
        await asyncio.sleep(30)
        return Decision.allow()

    made, here = (Target.of(CUPS, "CREATE", "UPDATE"),), (namespace,)
    hooks = (
        Hook(name="veto", phase="validate", targets=made, answer=veto, only_in=here, labels={TROUBLE: "veto"}),
        Hook(
            name="dawdle", phase="validate", targets=made, answer=dawdle, only_in=here, labels={TROUBLE: "dawdle"}, timeout=30
        ),
        meddle("meddle", again=False),
        meddle("insist", again=True),
    )
    return Slice(name="trouble", hooks=Part(make=lambda wiring: hooks))


def slices(args: argparse.Namespace) -> list[Slice]:
    kinds = [KINDS[name] for name in args.kinds.split(",")]
    charging = [stamping(args.namespace) if kind is BOWLS else slice_of(kind, args.namespace) for kind in kinds]
    return [ledger(patience(args)), *charging, trouble(args.namespace)]


async def webhook(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
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
    wiring = Wiring(client, instance=own_identity())
    hooks = wiring.hooks(slices(args))
    async with AsyncExitStack() as stack:
        for held in wiring.held:
            await stack.enter_async_context(held)
        reading = [asyncio.create_task(cache.run()) for cache in wiring.caches]
        stack.callback(lambda: [task.cancel() for task in reading])
        await run_webhook(
            hooks,
            client,
            settings,
            stop=stop,
            checks={cache.kind.name: cache.synced.is_set for cache in wiring.caches},
            serves=lambda host, port: say(port=port),
        )


async def leader(args: argparse.Namespace, client: Client, stop: asyncio.Event) -> None:
    async def work() -> None:
        wiring = Wiring(leading, instance=own_identity())
        controllers = wiring.controllers(slices(args))
        async with AsyncExitStack() as stack:
            for held in wiring.held:
                await stack.enter_async_context(held)
            say(leads=True)
            await controller.run(wiring.caches, controllers, stop=stop)

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
    parser.add_argument("--kinds", default=CUPS.plural)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--request-timeout", type=float, required=True)
    parser.add_argument("--expiry", type=float, required=True)
    uvloop.run(main(parser.parse_args()))
