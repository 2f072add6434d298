"""`python -m tests.conformance [--focus WORDS] [--record]`: runs the list, and fails where an outcome is not the listed one."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane, EmbeddedServer
from tests.e2e.real import RealControlPlane
from tools.peers.conformance.build import NoPrograms, program
from tools.peers.kube.build import programs

from .runs import Runner, since
from .specs import FAILED, PASSED, SKIPPED, BadList, CutOff, Result, Spec, read, surprises, write

NODE = "conformance"
HISTORY = "20"  # seconds, as kube-apiserver is told in tests: one spec waits until its version is compacted away


def main() -> int:
    arguments = _arguments()
    wanted = os.environ.get("E2E_CONTROL_PLANE", "embedded")
    if wanted not in ("embedded", "kube"):
        print(f"E2E_CONTROL_PLANE={wanted}: it is 'embedded' or 'kube'", file=sys.stderr)
        return 2
    embedded = wanted == "embedded"
    folder = Path(tempfile.mkdtemp(prefix="ullage-conformance-"))
    try:
        specs = read()
        chosen = [spec for spec in specs if arguments.focus in spec.name and spec.listed(embedded=embedded) != SKIPPED]
        seen = _run(chosen, folder, embedded=embedded)
    except (NoPrograms, BadList, CutOff) as problem:
        print(problem, file=sys.stderr)
        return 1
    if arguments.record:
        write(_recorded(read(), seen, embedded=embedded))
    wrong = surprises(chosen, seen, embedded=embedded)
    _tell(chosen, seen, wrong)
    if wrong:
        print(f"The logs are in {folder}.")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--focus", default="", metavar="WORDS", help="run the listed specs with these words in their names only"
    )
    parser.add_argument("--record", action="store_true", help="write the outcomes into the list")
    return parser.parse_args()


def _run(specs: list[Spec], folder: Path, *, embedded: bool) -> Mapping[str, Result]:
    tests = program(os.environ)
    start = time.monotonic()
    with _plane(folder, embedded=embedded) as plane:
        _add_node(Api(plane))
        print(f"{len(specs)} specs of Kubernetes' conformance tests, on {plane.url}", flush=True)
        seen = Runner(tests, plane, folder).run([spec.name for spec in specs])
    print(f"took {since(start)}")
    return seen


@contextlib.contextmanager
def _plane(folder: Path, *, embedded: bool) -> Iterator[ControlPlane]:
    """One that is thrown away afterwards."""
    server: EmbeddedServer | RealControlPlane
    if embedded:
        server = EmbeddedServer(folder / "data", options=["--history", HISTORY])
        server.data_dir.mkdir()
    else:
        server = RealControlPlane(programs(os.environ), whole=True)
    server.start()
    try:
        yield server.control_plane()
    finally:
        server.stop()


def _add_node(api: Api) -> None:
    """The tests begin when there is a node that is ready and has no taints; nothing runs on this one."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    api.create(
        "/api/v1/nodes",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status},
    )
    merge = {"Content-Type": "application/merge-patch+json"}
    for path, change in (
        (f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}}),
        (f"/api/v1/nodes/{NODE}/status", {"status": status}),
    ):
        answer = api.call("PATCH", path, change, headers=merge)
        if answer.code != 200:
            raise CutOff(f"the node could not be made ready: {answer.message}")


def _recorded(specs: list[Spec], seen: Mapping[str, Result], *, embedded: bool) -> list[Spec]:
    column = "embedded" if embedded else "kube"
    return [replace(spec, **{column: seen[spec.name].outcome}) if spec.name in seen else spec for spec in specs]


def _tell(specs: list[Spec], seen: Mapping[str, Result], wrong: list[str]) -> None:
    slow = sorted(seen.items(), key=lambda item: -item[1].seconds)[:5]
    print("the slowest:", *(f"{result.seconds:6.1f} s  {name}" for name, result in slow), sep="\n  ")
    for spec in specs:
        if spec.name in seen and seen[spec.name].outcome == FAILED and spec.reason:
            print(f"failed as listed ({spec.reason}): {spec.name}")
    for sentence in wrong:
        print(f"\n{sentence}")
    counts = Counter(result.outcome for result in seen.values())
    print(f"\n{counts[PASSED]} passed, {counts[FAILED]} failed, {len(wrong)} not as listed")


if __name__ == "__main__":
    sys.exit(main())
