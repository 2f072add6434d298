"""docs/neighbours.md: which versions of other projects' programs ran beside Ullage, and with what result.

`python -m tools.peers.page REPORT.xml…` writes it from what pytest reported (`--junitxml`), and `--tests` prints the files of
these tests; `make neighbours` does all of it.
Versions are those that the go.mod of each peer pins.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET  # reads what our own pytest wrote
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "neighbours.md"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A project whose programs run in tests. `module` is its name for Go, as the go.mod of our `peer` requires it."""

    name: str
    peer: str
    module: str
    tests: tuple[str, ...]  # without `test_` and `.py`
    what: str


NEIGHBOURS: Final = (
    Neighbour(
        "kubernetes",
        "kube",
        "k8s.io/kubernetes",
        ("peers/restores_beside_binder",),
        "`make test-kube` runs all end-to-end tests on its kube-apiserver, with etcd and kube-controller-manager. Here its"
        " volume binder and ours write on the same claims.",
    ),
    Neighbour(
        "kubevirt",
        "kubevirt",
        "kubevirt.io/kubevirt",
        ("peers/kubevirt", "peers/kubevirt_scenarios", "peers/kubevirt_pods"),
        "Its virt-api and virt-controller run VMs beside our limits, as far as they come without a node: players of ours stand"
        " for kubelet and virt-handler. What its own code renders is compared with our formula for 1,242 pods.",
    ),
    Neighbour(
        "machine-controller",
        "machine_controller",
        "github.com/kubermatic/machine-controller",
        ("peers/machine_controller",),
        "It makes the Machines of a user cluster whose project has a quota. It is built without one cloud provider, whose"
        " library cannot be had, and its provider `fake` tells an ID for each machine. Nodes are played.",
    ),
    Neighbour(
        "external-provisioner",
        "provisioner",
        "github.com/kubernetes-csi/external-provisioner/v5",
        ("peers/provisioner",),
        "It fills claims from snapshots that Ullage took, on our CSI driver.",
    ),
    Neighbour(
        "external-snapshotter",
        "snapshotter",
        "github.com/kubernetes-csi/external-snapshotter/v8",
        ("e2e/snapshot_peers", "e2e/snapshot_beside", "e2e/group_peers"),
        "Its snapshot-controller and csi-snapshotter work on our kinds and our CSI driver, each goes on with what the other"
        " left unfinished, and both run side by side.",
    ),
    Neighbour(
        "longhorn-engine",
        "longhorn",
        "github.com/longhorn/longhorn-engine",
        ("e2e/longhorn_engine", "e2e/real_engines"),
        "Its processes take, merge and restore snapshots for our controllers; the embedded engine gives the same answers to the"
        " same operations.",
    ),
    Neighbour(
        "csi-sanity",
        "csi",
        "github.com/kubernetes-csi/csi-test/v5",
        ("e2e/csi_sanity",),
        "It judges the CSI driver on which our tests run.",
    ),
)


@dataclass(frozen=True, slots=True)
class Story:
    """One test, and how it ended."""

    file: str  # as in `Neighbour.tests`
    name: str  # in words
    result: str


def version(neighbour: Neighbour, root: Path = ROOT) -> str:
    """What the go.mod of its peer pins."""
    text = (root / "tools" / "peers" / neighbour.peer / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(neighbour.module)} (v\S+)$", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"tools/peers/{neighbour.peer}/go.mod does not require {neighbour.module}")
    return found[1]


def stories(reports: Iterable[Path]) -> Iterator[Story]:
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            folder, _, file = case.get("classname", "").removeprefix("tests.").partition(".test_")
            yield Story(f"{folder.replace('.', '/')}/{file}", _words(case.get("name", "")), _result(case))


def _words(name: str) -> str:
    """A test's name as a sentence; what it was given stays in brackets."""
    said, bracket, given = name.removeprefix("test_").partition("[")
    return said.replace("_", " ") + (f" ({given.removesuffix(']')})" if bracket else "")


def _result(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    return "passed" if skipped is None else f"skipped: {skipped.get('message', '')}"


def page(found: Sequence[Story], versions: Mapping[str, str], neighbours: Sequence[Neighbour] = NEIGHBOURS) -> str:
    lines = [
        "# Neighbours: which versions ran, and with what result",
        "",
        "Programs of other projects run beside Ullage in our tests. Go builds them, unchanged but where the text says so, from",
        "the versions that `tools/peers` pins. `make neighbours` runs these tests, and writes this page from their reports.",
        "Velero, Longhorn's manager and Harvester's webhook do not run in them yet.",
        "",
        "| neighbour | version | tests passed | failed | skipped |",
        "|---|---|---|---|---|",
    ]
    for one in neighbours:
        results = [story.result.partition(":")[0] for story in found if story.file in one.tests]
        counts = " | ".join(str(results.count(kind)) for kind in ("passed", "failed", "skipped"))
        lines.append(f"| [{one.name}](#{one.name}) | {versions[one.name]} | {counts} |")
    for one in neighbours:
        lines += ["", f"## {one.name}", "", f"Version {versions[one.name]}. {one.what}", ""]
        for file in one.tests:
            told = [story for story in found if story.file == file]
            folder, name = _parts(file)
            lines.append(f"- `tests/{folder}/test_{name}.py`" + ("" if told else ": did not run"))
            lines += [f"  - {story.name}: {story.result}" for story in told]
    return "\n".join((*lines, ""))


def _suites(neighbours: Iterable[Neighbour]) -> list[str]:
    return [file for one in neighbours for file in one.tests]


def _parts(file: str) -> tuple[str, str]:
    folder, _, name = file.rpartition("/")
    return folder, name


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print("usage: python -m tools.peers.page --tests | REPORT.xml…", file=sys.stderr)
        return 2
    if arguments == ["--tests"]:
        print(*(f"tests/{folder}/test_{name}.py" for folder, name in map(_parts, _suites(NEIGHBOURS))), sep="\n")
        return 0
    found = list(stories(map(Path, arguments)))
    PAGE.write_text(page(found, {one.name: version(one) for one in NEIGHBOURS}))
    named = _suites(NEIGHBOURS)
    return 1 if any(story.result == "failed" for story in found if story.file in named) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
