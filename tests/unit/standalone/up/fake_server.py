"""A stand-in for the API server's process: keeps the same contract with its supervisor, and misbehaves on request."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour", choices=["good", "broken", "held", "held-once", "deaf", "mute"])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ephemeral", action="store_true")
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--parent-fd", type=int, required=True)
    args = parser.parse_args()

    with (args.data_dir / "starts").open("a") as starts:
        starts.write(f"{args.port} {args.ephemeral}\n")
    first = len((args.data_dir / "starts").read_text().splitlines()) == 1
    if args.behaviour == "broken":
        sys.exit("the disk is full")
    if args.behaviour == "held" or (args.behaviour == "held-once" and first):
        (args.data_dir / "lock").write_text(json.dumps({"pid": 4711, "started": "2026-01-01T00:00:00Z"}))
        sys.exit(75)

    lock = (args.data_dir / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(json.dumps({"pid": os.getpid(), "started": "2026-01-01T00:00:00Z"}), file=lock, flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if args.behaviour == "deaf" else lambda *_: sys.exit(0))
    if args.behaviour != "mute":
        (args.data_dir / "kubeconfig").touch(0o600)
        os.write(args.ready_fd, json.dumps({"port": args.port or 12345, "pid": os.getpid()}).encode() + b"\n")
        (args.data_dir / "served").touch()
    select.select([args.parent_fd], [], [])  # nothing is ever written: readable means that the supervisor is gone
    sys.exit(0)


if __name__ == "__main__":
    main()
