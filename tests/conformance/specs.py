"""The list of specs, one a line: what came of it on each control plane, and why where the two differ.

A spec whose outcome is not the listed one fails the run, also when it passes all of a sudden: a list that nobody has to
believe is worth nothing.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).parent / "specs.csv"
COLUMNS = ["kube", "embedded", "spec", "reason"]
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"  # skipped: not run, for it would take minutes or cannot pass
OUTCOMES = (PASSED, FAILED, SKIPPED)
_GINKGO = {"passed": PASSED, "skipped": SKIPPED, "pending": SKIPPED}  # anything else has failed: panicked, timedout, aborted


class BadList(Exception):
    """What is wrong with the list, with the line."""


class CutOff(Exception):
    """Why the tests did not run, or not to their end."""


@dataclass(frozen=True, slots=True)
class Spec:
    name: str
    kube: str  # on kube-apiserver, etcd and kube-controller-manager, without a kubelet
    embedded: str
    reason: str = ""

    def listed(self, *, embedded: bool) -> str:
        return self.embedded if embedded else self.kube


@dataclass(frozen=True, slots=True)
class Result:
    outcome: str
    seconds: float = 0.0
    message: str = ""  # of the failure


def read(path: Path = LIST) -> list[Spec]:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != COLUMNS:
            raise BadList(f"{path.name}: the columns are {','.join(COLUMNS)}")
        found = [_spec(row, f"{path.name}:{rows.line_num}") for row in rows]
    names = [spec.name for spec in found]
    for name in names:
        if names.count(name) > 1:
            raise BadList(f"{path.name}: listed twice: {name}")
    return found


def _spec(row: Mapping[str, str], place: str) -> Spec:
    spec = Spec(row["spec"] or "", row["kube"] or "", row["embedded"] or "", row["reason"] or "")
    if not spec.name or not {spec.kube, spec.embedded} <= set(OUTCOMES):
        raise BadList(f"{place}: a spec, and an outcome of {', '.join(OUTCOMES)} for each control plane")
    if spec.reason == "" and spec.embedded != PASSED:
        raise BadList(f"{place}: a spec that does not pass needs a reason")
    return spec


def write(specs: Iterable[Spec], path: Path = LIST) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([spec.kube, spec.embedded, spec.name, spec.reason] for spec in specs)


def results(report: bytes) -> dict[str, Result]:
    """What ginkgo's JSON report says of every spec that it ran."""
    found = {}
    for suite in json.loads(report):
        for spec in suite["SpecReports"] or ():
            message = (spec.get("Failure") or {}).get("Message", "")
            if spec["LeafNodeType"].endswith("BeforeSuite") and message:
                raise CutOff(f"the tests did not begin: {message}")
            if spec["LeafNodeType"] == "It" and spec["NumAttempts"]:  # else the focus left it out
                name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
                found[name] = Result(_GINKGO.get(spec["State"], FAILED), spec["RunTime"] / 1e9, message)
    return found


def surprises(specs: Iterable[Spec], seen: Mapping[str, Result], *, embedded: bool) -> list[str]:
    """A sentence for every spec whose outcome is not the listed one."""
    return [sentence for spec in specs if (sentence := _surprise(spec, seen.get(spec.name), spec.listed(embedded=embedded)))]


def _surprise(spec: Spec, result: Result | None, listed: str) -> str:
    if result is None:
        return f"did not run, although it is listed as {listed}: {spec.name}"
    if result.outcome == listed:
        return ""
    if listed == FAILED:
        return f"{result.outcome}, although it is listed as failed ({spec.reason}): {spec.name}"
    return f"{result.outcome}, although it is listed as {listed}: {spec.name}\n{result.message}".rstrip()
