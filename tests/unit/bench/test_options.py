"""`--smoke` of the benchmarks."""

from __future__ import annotations

import argparse
import sys

import pytest

from bench.options import give_up, parse
from bench.smoke import HERE, benchmarks
from tools.peers.go_programs import NoPrograms


def parsed(monkeypatch: pytest.MonkeyPatch, *words: str) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, default=30_000)
    return parse(parser, objects=10)


@pytest.mark.parametrize(
    ("words", "objects"),
    [
        pytest.param([], 30_000, id="a real run takes the real numbers"),
        pytest.param(["--smoke"], 10, id="a smoke run takes the small ones"),
        pytest.param(["--smoke", "--objects", "20"], 20, id="what is given counts in a smoke run too"),
    ],
)
def test_numbers(monkeypatch: pytest.MonkeyPatch, words: list[str], objects: int) -> None:
    assert parsed(monkeypatch, *words).objects == objects


def test_a_smoke_run_without_a_control_plane_says_that_it_was_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        give_up(NoPrograms("no Go"), parsed(monkeypatch, "--smoke"))
    assert ended.value.code == 0
    assert capsys.readouterr().err == "skipped: nothing to measure on: no Go\n"


def test_a_real_run_without_a_control_plane_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        give_up(NoPrograms("no Go"), parsed(monkeypatch))
    assert ended.value.code == "nothing to measure on: no Go"


def test_every_benchmark_has_a_smoke_run() -> None:
    folders = {path.name for path in HERE.iterdir() if (path / "__init__.py").exists()}
    assert set(benchmarks()) == folders
    assert [name for name in benchmarks() if "parse(parser, " not in (HERE / name / "__main__.py").read_text()] == []
