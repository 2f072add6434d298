"""A slice whose cups stand in other clusters: each Yard is one, with a kubeconfig in a Secret and the ledger of its cups.

`python -m tests.e2e.cluster_slice --kubeconfig FILE --namespace N` is the one process that follows all of them: webhook and
controllers, as the product runs them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any, Final

import uvloop

from ullage.app.processes.controller import ControllerSettings, run_controller
from ullage.app.processes.webhook import run_webhook, webhook_settings
from ullage.kube.builtin.core import SECRETS
from ullage.kube.cache.indexer import Key
from ullage.kube.client.config import Config
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.views import Evaluator
from ullage.ledger.slice import ledger

from .ledger_slice import BY_NAMESPACE, CUPS, say


class YardSpec(Value):
    ledger: str = ""


class Yard(Object):
    """A cluster that cups stand in."""

    spec: YardSpec = YardSpec()


YARDS: Final = Kind("test.ullage.io", "v1", "Yard", "yards", Yard, status=False)


def secret_of(yard: str) -> str:
    return f"{yard}-kubeconfig"


def yards(namespace: str, cups: Kind[Any] = CUPS, takes: Evaluator[Any] = BY_NAMESPACE) -> Slice:
    def shared(wiring: Wiring) -> Iterable[Charged[Any]]:
        registry, clusters = registry_of(wiring), wiring.clusters
        found = wiring.cache(YARDS, namespace=namespace)
        secrets = wiring.cache(SECRETS, namespace=namespace)
        ledgers: dict[str, str] = {}

        def changed(old: Yard | None, new: Yard | None) -> None:
            yard = new or old
            assert yard is not None
            name = yard.metadata.name
            if new is None or new.metadata.deletion_timestamp:
                clusters.remove(name)
                registry.displace(name)
                return
            ledgers[name] = yard.spec.ledger
            registry.place(name, [yard.spec.ledger])
            clusters.follow(name, secrets, Key(namespace, secret_of(name)))

        async def removed(cluster: str) -> bool:
            there = await wiring.client.find(YARDS, cluster, namespace)
            return there is None or there.metadata.deletion_timestamp is not None

        def evaluator(cluster: str) -> Evaluator[Any]:
            return Evaluator(ledger_of=lambda cup: ledgers[cluster], takes=takes.takes)

        charged = registry.register_elsewhere(cups, evaluator, removed=removed, complete=found.synced.is_set)
        found.handle(changed)
        yield charged

    def hooks(wiring: Wiring) -> Iterable[Hook]:
        charged = registry_of(wiring).registered(cups)

        async def admit(review: Review) -> Decision:
            return await charged.decide(review, next_step="take one away")

        yield Hook(name="cups", phase="validate", targets=(Target.of(cups, "CREATE", "UPDATE"),), answer=admit, elsewhere=True)

    return Slice(
        name="yards",
        kinds=(YARDS,),
        shared=Part(make=shared, watches=(YARDS, SECRETS), elsewhere=(cups,)),
        hooks=Part(make=hooks),
    )


async def main(args: argparse.Namespace) -> None:
    stop, served = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: os._exit(1))  # it ends when the test does, however that ends
    config = Config.load(args.kubeconfig)
    slices = (
        ledger(Settings(request_timeout=args.request_timeout, expiry=args.expiry, expiry_elsewhere=args.expiry)),
        yards(args.namespace),
    )
    webhook = webhook_settings(look_every=1.0, test_every=3600.0, drain=0.1, stop_seconds=5)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_webhook(slices, config, webhook, stop=stop, serves=lambda port: served.set()))
        settings = ControllerSettings(leader_elect=False)
        group.create_task(run_controller(slices, config, settings, stop=stop))
        await served.wait()
        say(serves=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--request-timeout", type=float, required=True)
    parser.add_argument("--expiry", type=float, required=True)
    uvloop.run(main(parser.parse_args()))
