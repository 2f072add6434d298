"""`ullage volume` and `ullage tree` as commands: what they take, what they refuse, what they print."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.unit.cli.volume.cluster import VolumeCluster, entry
from ullage.cli.common import session
from ullage.cli.common.arguments import At
from ullage.cli.volume.command import app
from ullage.cli.volume.tree import tree
from ullage.engines.api import ENGINES, VOLUMES
from ullage.engines.chain import HEAD
from ullage.errors import BadInput, UllageError
from ullage.kube.builtin import core

NAMES = "not a name; up to 253 lower case letters, digits, - and . are allowed, with a letter or digit at both ends"
WHERE = "NAMESPACE/CLAIM|VOLUME"
SIZES = "not a size; allowed are bytes, and units as in 500Mi or 10Gi"

tree_app = typer.Typer()
tree_app.command()(tree)


def refused(*arguments: str, of: typer.Typer = app) -> str:
    result = CliRunner().invoke(of, arguments)
    assert isinstance(result.exception, UllageError), result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ["list", "-o", "csv"],
            "--output csv: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH is allowed",
            id="a format",
        ),
        pytest.param(
            ["get", "a", "-l", "app=db"], f"{WHERE} a with -l: only one of them is allowed", id="a name and a selector"
        ),
        pytest.param(["list", "-n", "a/b"], f"--namespace a/b: {NAMES}", id="a path as a namespace"),
        pytest.param(["tree", "../x"], f"{WHERE} ..: {NAMES}", id="a path as a claim"),
        pytest.param(
            ["tree", "a/b/c"], f"{WHERE} a/b/c: NAMESPACE/CLAIM, or the name of a volume is allowed", id="three parts"
        ),
        pytest.param(["tree", "a/"], f"{WHERE} (empty): {NAMES}", id="no claim"),
        pytest.param(["tree", "/a"], f"{WHERE} (empty): {NAMES}", id="no namespace"),
        pytest.param(["read", "a", "--offset", "-1"], f"--offset -1: {SIZES}", id="an offset below zero"),
        pytest.param(["read", "a", "--length", "0"], f"--length 0: {SIZES}", id="nothing to read"),
        pytest.param(
            ["write", "a", "--length", "4Ki"],
            "--random, --zero, --from (none of them): exactly one of them is allowed",
            id="nothing to write",
        ),
        pytest.param(
            ["write", "a", "--random", "--zero", "--length", "4Ki"],
            "--random, --zero, --from --random --zero: exactly one of them is allowed",
            id="two things to write",
        ),
        pytest.param(
            ["write", "a", "--zero"], "--length (absent): --zero needs it: how many bytes, such as 4Mi", id="zeros without end"
        ),
        pytest.param(
            ["write", "a", "--from", "/nonexistent"], "--from /nonexistent: an existing file is allowed", id="no file"
        ),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    with pytest.raises(BadInput):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert refused(*arguments) == text


@pytest.mark.parametrize("given", ["data", "pod/data", "pvc", ""])
def test_a_tree_is_of_a_claim(given: str) -> None:
    assert refused(given, of=tree_app) == f"WHAT {given or '(empty)'}: pvc/NAME is allowed"


def test_more_than_a_file_has_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"x" * 100)
    assert refused("write", "a", "--from", str(file), "--length", "101") == (
        f"--length 101: {file} has 100 bytes; as many are allowed at most"
    )


# --- with a cluster --------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VolumeCluster:
    found = VolumeCluster()

    def connected(at: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(found.session(at.namespace or "shop", at.dialect))

        return asyncio.run(run())

    monkeypatch.setattr(session, "connected", connected)
    return found


def called(*arguments: str, of: typer.Typer = app) -> Result:
    return CliRunner().invoke(of, arguments, catch_exceptions=False)


@pytest.fixture
def shop(cluster: VolumeCluster) -> VolumeCluster:
    cluster.volume("pvc-1", entry("a"), entry(HEAD, "a"), claim="shop/data")
    cluster.volume("pvc-2", entry(HEAD), claim="bank/data")
    return cluster


def first_cells(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines()]


def test_volumes_are_listed_by_claim(shop: VolumeCluster) -> None:
    assert first_cells(called("list").stdout) == ["VOLUME", "pvc-2", "pvc-1"]
    assert first_cells(called("list", "-n", "shop").stdout) == ["VOLUME", "pvc-1"]
    assert called("list", "-o", "name").stdout == "volume.longhorn.io/pvc-2\nvolume.longhorn.io/pvc-1\n"
    shown = json.loads(called("list", "-o", "json").stdout)["items"]
    assert [(one["kind"], one["metadata"]["name"]) for one in shown] == [("Volume", "pvc-2"), ("Volume", "pvc-1")]


def test_no_volumes_are_said_apart_from_the_output(cluster: VolumeCluster) -> None:
    result = called("list", "-n", "shop")
    assert (result.stdout, result.stderr) == ("", "ullage: there are no volumes of engines in namespace shop\n")
    assert json.loads(called("list", "-o", "json").stdout)["items"] == []
    assert called("list", "-o", "name").stdout == ""


def test_claims_that_may_not_be_read_are_left_out_and_said(shop: VolumeCluster) -> None:
    shop.hidden = {core.PERSISTENT_VOLUMES.name}
    result = called("list")
    assert first_cells(result.stdout) == ["VOLUME", "pvc-1", "pvc-2"]
    assert result.stderr.startswith("ullage: note: claims are not known: persistentvolumes is forbidden")


@pytest.mark.parametrize(
    ("arguments", "of"),
    [(["tree", "shop/data"], app), (["tree", "pvc-1"], app), (["pvc/data"], tree_app), (["pvc/data", "-n", "shop"], tree_app)],
    ids=["by its claim", "by its name", "as a claim of the context", "as a claim of a namespace"],
)
def test_a_tree_of_one_volume(shop: VolumeCluster, arguments: list[str], of: typer.Typer) -> None:
    shown = called(*arguments, of=of).stdout.splitlines()
    assert shown[0] == "volume pvc-1 of claim shop/data: 8Mi, detached"
    assert [line.split()[0] for line in shown[3:5]] == ["a", HEAD]
    assert shown[-1] == "as last seen: the engine is not running"


def test_a_tree_for_programs(shop: VolumeCluster) -> None:
    assert json.loads(called("tree", "shop/data", "-o", "json").stdout)["volume"] == "pvc-1"
    assert called("tree", "shop/data", "-o", "name").stdout == "snapshot.longhorn.io/a\n"
    assert called("tree", "bank/data", "-o", "name").stdout == ""


def test_a_claim_whose_volume_may_not_be_read_is_found_by_its_name(shop: VolumeCluster) -> None:
    shop.hidden = {core.PERSISTENT_VOLUMES.name}
    shop.put(core.CLAIMS, {"metadata": {"name": "same"}, "spec": {"volumeName": "pvc-1"}})
    assert called("tree", "shop/same").stdout.startswith("volume pvc-1 of claim shop/same")


def test_what_has_no_tree(shop: VolumeCluster) -> None:
    shop.put(core.CLAIMS, {"metadata": {"name": "new"}, "spec": {}})
    shop.bind("shop/csi", "x", driver="ebs.csi.aws.com")
    shop.bind("shop/path", "y", driver="")
    shop.bind("shop/gone", "pvc-9")
    shop.volume("fresh")
    shop.volume("moving", entry(HEAD))
    shop.engine("moving-e-1", "moving", entry(HEAD))
    shop.volume("deaf")
    shop.engine("deaf-e-0", "deaf", snapshotsError="no answer")
    shop.volume("bare")
    del shop.objects[ENGINES.name, "longhorn-system", "bare-e-0"]
    only = "only those of driver.longhorn.io have engines"
    unknown = "the snapshots of volume"
    for target, text in {
        "shop/none": "claim shop/none does not exist",
        "shop/new": "claim shop/new has no volume yet",
        "shop/csi": f"claim shop/csi has a volume of ebs.csi.aws.com; {only}",
        "shop/path": f"claim shop/path has a volume of no CSI driver; {only}",
        "shop/gone": "volume pvc-9 does not exist in namespace longhorn-system; claim shop/gone names it",
        "pvc-9": "volume pvc-9 does not exist in namespace longhorn-system",
        "fresh": f"{unknown} fresh are not known yet: it has never been attached",
        "deaf": f"{unknown} deaf are not known yet: the engine cannot be asked: no answer",
        "moving": f"{unknown} moving are not known now: it migrates, and has two engines",
        "bare": f"{unknown} bare are not known now: it has no engine yet",
    }.items():
        assert refused("tree", target) == text


@pytest.mark.parametrize("arguments", [["list"], ["tree", "pvc-1"]], ids=["a list", "a tree"])
def test_a_cluster_without_engines(cluster: VolumeCluster, arguments: list[str]) -> None:
    cluster.absent = {VOLUMES.name}
    assert refused(*arguments) == "this cluster does not serve volumes.longhorn.io: it has no volumes of engines"
