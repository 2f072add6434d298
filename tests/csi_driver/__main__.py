"""The driver's process. It says `ready` on its output when its socket answers."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc.aio

from ullage.snapshots.backends.csi import csi_pb2_grpc as services
from ullage.snapshots.backends.csi.channel import socket_path

from .controller import CAPABILITIES, Controller
from .faults import Faults, Interceptor
from .groups import GROUPS, GroupController
from .identity import Identity
from .metadata import METADATA, SnapshotMetadata
from .node import Node
from .store import Store

CALLS = "calls.jsonl"
DEFAULT_NAME = "csi.test.ullage.io"
DEFAULT_CAPACITY = 1 << 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.csi_driver", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="the socket to listen on: unix:///path")
    parser.add_argument("--state", required=True, type=Path, help="the directory for everything")
    parser.add_argument("--faults", type=Path, help="the control file; it may come later")
    parser.add_argument("--name", default=DEFAULT_NAME, help="the driver's name")
    parser.add_argument("--node", default="node-1", help="the name of this node")
    parser.add_argument("--capacity", type=int, default=DEFAULT_CAPACITY, help="bytes of all volumes together")
    parser.add_argument(
        "--without", action="append", default=[], choices=(*CAPABILITIES, METADATA, GROUPS), help="leave a capability out"
    )
    parser.add_argument("--with-stdin", action="store_true", help="end when the standard input ends")
    asyncio.run(serve(parser.parse_args()))


async def serve(args: argparse.Namespace) -> None:
    path = socket_path(args.endpoint, where="--endpoint")
    store, faults = Store(args.state), Faults(args.faults)
    server = grpc.aio.server(interceptors=[Interceptor(faults, args.state / CALLS)])
    controller = Controller(store, faults, node=args.node, total=args.capacity, without=args.without)
    metadata, groups = METADATA not in args.without, GROUPS not in args.without
    services.add_IdentityServicer_to_server(Identity(args.name, metadata=metadata, groups=groups), server)
    if groups:
        services.add_GroupControllerServicer_to_server(GroupController(store, faults), server)
    if metadata:
        services.add_SnapshotMetadataServicer_to_server(SnapshotMetadata(store), server)
    services.add_ControllerServicer_to_server(controller, server)
    services.add_NodeServicer_to_server(Node(store, node=args.node), server)
    path.unlink(missing_ok=True)  # one that a killed driver left
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("ready", flush=True)
    await until_told(with_stdin=args.with_stdin)
    await server.stop(grace=1)


async def until_told(*, with_stdin: bool) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if with_stdin:
        loop.add_reader(sys.stdin.fileno(), end_of_input, told)
    await told.wait()
    loop.remove_reader(sys.stdin.fileno())


def end_of_input(told: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        told.set()


if __name__ == "__main__":
    main()
