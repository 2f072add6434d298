"""One replica of a webhook, as a process that a test can kill. It judges ConfigMaps by what they ask for in `data`.

Every name that it reviews is in the record before the answer leaves, so a test can tell what was let through unreviewed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import uvloop
from msgspec.structs import replace

from ullage.admission.paths import PathTerms
from ullage.admission.run import Settings, run_webhook
from ullage.errors import Retryable
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.serving.certificates import Terms

ROLE = "e2e.ullage.io/role"
STAMP = "e2e.ullage.io/stamped-by"


class Guard:
    """Says what the object asks it to say."""

    def __init__(self, record: Path) -> None:
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def answer(self, review: Review) -> Decision:
        data = review.object(CONFIG_MAPS).data
        await asyncio.sleep(float(data.get("seconds", "0")))
        os.write(self._record, f"{review.name} {os.getpid()}\n".encode())
        match data.get("verdict"):
            case "refuse":
                return Decision.refuse("asked to refuse", causes=(Cause("data.verdict", "FieldValueForbidden", "too much"),))
            case "invalid":
                return Decision.invalid("asked for a fault", Cause("data.verdict", "FieldValueInvalid", "not so"))
            case "again":
                return Decision.again("asked for patience", retry_after=7)
            case "retryable":
                raise Retryable("the ledger is away")
            case "crash":
                raise RuntimeError("asked to crash")
            case "warn":
                return Decision.allow(warnings=("near the limit",))
        return Decision.allow()


async def stamp(review: Review) -> Decision:
    """Changes the typed part of the object; whatever the type does not name must survive."""
    old = review.object(CONFIG_MAPS)
    annotations = {**old.metadata.annotations, STAMP: review.user.username, "dry-run": str(review.dry_run)}
    return review.change(old, replace(old, metadata=replace(old.metadata, annotations=annotations)))


def hooks(namespace: str, record: Path) -> list[Hook]:
    created = (Target.of(CONFIG_MAPS, "CREATE"),)
    guard, here = Guard(record), (namespace,)
    return [
        Hook(name="guard", phase="validate", targets=created, answer=guard.answer, only_in=here, labels={ROLE: "guarded"}),
        Hook(
            name="brief",
            phase="validate",
            targets=created,
            answer=guard.answer,
            only_in=here,
            labels={ROLE: "brief"},
            timeout=2,
        ),
        Hook(name="stamp", phase="mutate", targets=created, answer=stamp, only_in=here, labels={ROLE: "stamped"}),
    ]


async def main(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: os._exit(1))  # it ends when the test does, however that ends
    settings = Settings(
        port=args.port,
        namespace=args.namespace,
        name=args.name,
        terms=Terms(hosts=("localhost",), settle=args.settle, keep=args.keep),
        path_terms=PathTerms(settle=args.path_settle, keep=args.path_keep),
        look_every=0.2,
        test_every=0.2,
        drain=0.5,
        stop_seconds=5,
    )
    async with Client(Config.load(args.kubeconfig), user_agent="ullage-e2e-webhook") as client:
        await run_webhook(
            hooks(args.namespace, args.record),
            client,
            settings,
            stop=stop,
            serves=lambda host, port: print(json.dumps({"port": port}), flush=True),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--settle", type=float, default=120.0)
    parser.add_argument("--keep", type=float, default=3600.0)
    parser.add_argument("--path-settle", type=float, default=120.0)
    parser.add_argument("--path-keep", type=float, default=90.0)
    uvloop.run(main(parser.parse_args()))
