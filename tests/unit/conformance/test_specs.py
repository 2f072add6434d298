"""The list of conformance specs: how it is read, and that a run whose outcomes are not the listed ones fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.specs import BadList, CutOff, Result, Spec, read, results, surprises, write

HEADER = "kube,embedded,spec,reason\n"
GOOD, BAD = Result("passed"), Result("failed", message="Expected true")


def spec(*, kube: str = "passed", embedded: str = "passed", reason: str = "") -> Spec:
    return Spec("[sig-x] a, b", kube, embedded, reason)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("kube,spec\n", "the columns are kube,embedded,spec,reason", id="other columns"),
        pytest.param(f"{HEADER}passed,maybe,x,\n", "specs.csv:2: a spec, and an outcome of", id="an unknown outcome"),
        pytest.param(f"{HEADER}passed,passed,,\n", "specs.csv:2: a spec, and an outcome of", id="no name"),
        pytest.param(f"{HEADER}passed,passed\n", "specs.csv:2: a spec, and an outcome of", id="a short line"),
        pytest.param(f"{HEADER}passed,failed,x,\n", "specs.csv:2: .* needs a reason", id="a failure without a reason"),
        pytest.param(f"{HEADER}skipped,skipped,x,\n", "specs.csv:2: .* needs a reason", id="a skip without a reason"),
        pytest.param(f"{HEADER}passed,passed,x,\npassed,passed,x,\n", "listed twice: x", id="a spec twice"),
    ],
)
def test_a_bad_list_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "specs.csv").write_text(text)
    with pytest.raises(BadList, match=words):
        read(tmp_path / "specs.csv")


def test_what_is_written_reads_the_same(tmp_path: Path) -> None:
    specs = [spec(), Spec("[sig-y] c", "passed", "failed", "not here, on purpose")]
    write(specs, tmp_path / "specs.csv")
    assert read(tmp_path / "specs.csv") == specs


def test_the_committed_list_is_a_good_one(tmp_path: Path) -> None:
    specs = read()
    assert len([one for one in specs if one.embedded == "passed"]) > 100
    write(specs, tmp_path / "specs.csv")
    assert read(tmp_path / "specs.csv") == specs


@pytest.mark.parametrize(
    ("listed", "seen", "sentence"),
    [
        pytest.param(spec(), GOOD, None, id="it passes, as listed"),
        pytest.param(spec(embedded="failed", reason="on purpose"), BAD, None, id="it fails, as listed"),
        pytest.param(spec(), BAD, "failed, although it is listed as passed: [sig-x] a, b\nExpected true", id="it fails now"),
        pytest.param(
            spec(embedded="failed", reason="on purpose"),
            GOOD,
            "passed, although it is listed as failed (on purpose): [sig-x] a, b",
            id="it passes now: the list is stale",
        ),
        pytest.param(
            spec(), Result("skipped"), "skipped, although it is listed as passed: [sig-x] a, b", id="it skips itself now"
        ),
        pytest.param(
            spec(), None, "did not run, although it is listed as passed: [sig-x] a, b", id="it is gone, or was cut off"
        ),
    ],
)
def test_a_spec_that_changes_its_outcome_fails_the_run(listed: Spec, seen: Result | None, sentence: str | None) -> None:
    found = surprises([listed], {} if seen is None else {listed.name: seen}, embedded=True)
    assert found == ([] if sentence is None else [sentence])


def test_each_control_plane_has_its_own_column() -> None:
    listed = spec(kube="passed", embedded="failed", reason="on purpose")
    assert surprises([listed], {listed.name: GOOD}, embedded=False) == []
    assert surprises([listed], {listed.name: BAD}, embedded=False) != []


def report(*specs: dict[str, Any]) -> bytes:
    return json.dumps([{"SpecReports": list(specs)}]).encode()


def one(state: str, *, kind: str = "It", attempts: int = 1, **rest: Any) -> dict[str, Any]:
    texts = {"ContainerHierarchyTexts": ["[sig-x] a", "b"], "LeafNodeText": "c", "LeafNodeType": kind}
    return {**texts, "State": state, "NumAttempts": attempts, "RunTime": 1_500_000_000, **rest}


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        pytest.param("passed", "passed", id="passed"),
        pytest.param("failed", "failed", id="failed"),
        pytest.param("panicked", "failed", id="a panic is a failure"),
        pytest.param("timedout", "failed", id="a time-out is a failure"),
        pytest.param("interrupted", "failed", id="an interrupted one has failed"),
        pytest.param("skipped", "skipped", id="skipped by itself"),
    ],
)
def test_what_the_report_says_of_a_spec(state: str, outcome: str) -> None:
    failure: dict[str, Any] = {"Failure": {"Message": "why"}} if outcome == "failed" else {}
    found = results(report(one(state, **failure)))
    assert found == {"[sig-x] a b c": Result(outcome, 1.5, "why" if failure else "")}


def test_what_the_focus_left_out_did_not_run() -> None:
    assert results(report(one("skipped", attempts=0))) == {}


def test_tests_that_could_not_begin_say_why() -> None:
    with pytest.raises(CutOff, match="did not begin: no node is ready"):
        results(report(one("failed", kind="SynchronizedBeforeSuite", Failure={"Message": "no node is ready"})))


def test_the_readme_names_the_figures_of_the_list() -> None:
    readme = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    real = [one for one in read() if one.kube == "passed"]
    machinery = [one for one in real if one.name.startswith("[sig-api-machinery]") and "[Conformance]" in one.name]
    further = [one for one in real if one not in machinery]
    here, there = (sum(one.embedded == "passed" for one in specs) for specs in (machinery, further))
    assert f"Of the {len(machinery)} conformance specs of sig-api-machinery" in readme
    assert f"{here} pass here" in readme
    assert f"do {there} of {len(further)} further specs" in readme
