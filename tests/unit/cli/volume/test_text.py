"""How chains of snapshots read, and what a purge could free of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.cli.volume.cluster import MIB, entry
from ullage.cli.common.listing import shown
from ullage.cli.common.options import OutputFormat
from ullage.cli.volume import text
from ullage.cli.volume.chain import Entries, lines, reclaimable, totals
from ullage.cli.volume.reading import FoundVolume
from ullage.engines.api import Engine, SnapshotInfo, Volume
from ullage.engines.chain import HEAD

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def entries(*given: tuple[str, dict[str, Any]]) -> Entries:
    return msgspec.convert(dict(given), dict[str, SnapshotInfo])


def found(*given: tuple[str, dict[str, Any]], claim: str = "shop/data", state: str = "running", **status: Any) -> FoundVolume:
    volume = {"metadata": {"name": "pvc-1", "creationTimestamp": "2026-05-01T09:00:00Z"}, "spec": {"size": str(8 * MIB)}}
    shown = {"currentState": state, "snapshots": dict(given), **status}
    engine = {"metadata": {"name": "pvc-1-e-0"}, "spec": {"volumeName": "pvc-1"}, "status": shown}
    return FoundVolume(
        volume=msgspec.convert({**volume, "status": {"state": "attached", "robustness": "healthy"}}, Volume),
        engines=[msgspec.convert(engine, Engine)],
        claim=claim,
    )


CHAIN = (
    entry("first", size=4 * MIB),
    entry("system", "first", usercreated=False, size=2 * MIB, created="2026-05-01T10:30:00Z"),
    entry("old", "first", created="2026-05-01T10:10:00Z"),
    entry("older", "old", created="2026-05-01T10:20:00Z"),
    entry("last", "system", removed=True, size=3 * MIB, created="2026-05-01T11:00:00Z", labels={"job": "nightly"}),
    entry(HEAD, "last", usercreated=False, size=MIB // 2),
)


# --- the tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param((entry(HEAD),), [HEAD], id="a volume without snapshots"),
        pytest.param((entry(HEAD, "b"), entry("b", "a"), entry("a")), ["a", "b", HEAD], id="a chain is flat, the first on top"),
        pytest.param(
            CHAIN, ["first", "├─ old", "│  older", "system", "last", HEAD], id="what leads to the head is not set off"
        ),
        pytest.param(
            (entry("a"), entry("b", "a"), entry("c", "b"), entry("d", "b"), entry(HEAD, "a")),
            ["a", "├─ b", "│  ├─ c", "│  d", HEAD],
            id="a branch of a branch",
        ),
        pytest.param((entry("a"), entry(HEAD)), ["a", HEAD], id="after a revert to nothing there are two trees"),
        pytest.param((entry("b", "gone"), entry(HEAD, "b")), ["b", HEAD], id="a parent that is missing"),
        pytest.param((entry("a", "b"), entry("b", "a"), entry(HEAD)), [HEAD, "a", "b"], id="a loop comes last"),
        pytest.param(((HEAD, {"size": "1"}),), [HEAD], id="an entry that does not say its name"),
    ],
)
def test_the_order_and_marks_of_a_tree(given: tuple[tuple[str, dict[str, Any]], ...], shown: list[str]) -> None:
    assert [f"{line.prefix}{line.entry.name}" for line in lines(entries(*given))] == shown


def test_a_chain_may_be_longer_than_any_stack() -> None:
    chain = [entry(f"s{number}", f"s{number - 1}" if number else "") for number in range(5000)]
    assert len(lines(entries(*chain, entry(HEAD, "s4999")))) == 5001


# --- what a purge could free -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "freed"),
    [
        pytest.param((entry("a"), entry(HEAD, "a")), 0, id="what nobody marked stays"),
        pytest.param(
            (entry("a", removed=True, size=5), entry("b", "a", size=3), entry(HEAD, "b")),
            3,
            id="merged into its child: what both hold, at most the smaller",
        ),
        pytest.param(
            (entry("a", usercreated=False, size=2), entry("b", "a", size=3), entry(HEAD, "b")), 2, id="a system's own goes too"
        ),
        pytest.param(
            (entry("a"), entry("b", "a", removed=True, size=7), entry(HEAD, "a")), 7, id="what nothing builds on goes whole"
        ),
        pytest.param(
            (entry("a", removed=True, size=7), entry(HEAD, "a", size=4)), 4, id="under the head what the head holds too"
        ),
        pytest.param(
            (entry("a", removed=True), entry("b", "a"), entry("c", "a"), entry(HEAD, "c")), 0, id="several build on it"
        ),
        pytest.param(
            (
                entry("a", removed=True, size=5),
                entry("b", "a", removed=True, size=2),
                entry("c", "a", size=3),
                entry(HEAD, "c"),
            ),
            5,
            id="the one that goes lets the other go: 2 whole and 3 of 5",
        ),
        pytest.param(
            (
                entry("a", removed=True, size=5),
                entry("b", "a", removed=True, size=2),
                entry("c", "b", size=4),
                entry(HEAD, "c", size=9),
            ),
            6,
            id="one after the other: 2 of the first, then 4 of what both are together",
        ),
        pytest.param((), 0, id="nothing is known"),
        pytest.param(
            (entry("a", "b", removed=True, size=1), entry("b", "a", removed=True, size=1)), 0, id="a loop is no chain"
        ),
    ],
)
def test_what_a_purge_could_free(given: tuple[tuple[str, dict[str, Any]], ...], freed: int) -> None:
    assert reclaimable(entries(*given)) == freed


def test_the_head_is_no_snapshot_and_marked_ones_are_counted_apart() -> None:
    amounts = totals(entries(*CHAIN))
    assert (amounts.snapshots, amounts.removed) == (4, 1)
    assert (amounts.used, amounts.head) == (11 * MIB + MIB // 2, MIB // 2)


# --- words -----------------------------------------------------------------------------------------------------------


def test_a_tree_in_words() -> None:
    assert text.tree(found(*CHAIN), now=NOW) == (
        "volume pvc-1 of claim shop/data: 8Mi, attached\n"
        "\n"
        "NAME          SIZE    TAKEN                  AGE    BY       STATE\n"
        "first         4Mi     2026-05-01T10:00:00Z   2h     user     -\n"
        "├─ old        1Mi     2026-05-01T10:10:00Z   110m   user     -\n"
        "│  older      1Mi     2026-05-01T10:20:00Z   100m   user     -\n"
        "system        2Mi     2026-05-01T10:30:00Z   90m    system   -\n"
        "last          3Mi     2026-05-01T11:00:00Z   60m    user     removed\n"
        "volume-head   512Ki   -                      -      -        head\n"
        "\n"
        "4 snapshots and 1 removed; 11.5Mi used, 512Ki of it since the last snapshot; a purge could free at most 2.5Mi"
    )


def test_wide_shows_parents_and_labels() -> None:
    shown = text.tree(found(*CHAIN), now=NOW, wide=True).splitlines()
    assert shown[2].split() == ["NAME", "SIZE", "TAKEN", "AGE", "BY", "STATE", "PARENT", "LABELS"]
    assert shown[7].split()[-2:] == ["system", "job=nightly"]


def test_a_chain_with_nothing_to_free() -> None:
    shown = text.tree(found(entry("a"), entry(HEAD, "a", size=0)), now=NOW)
    assert shown.splitlines()[-1] == ("1 snapshot; 1Mi used, 0 of it since the last snapshot; a purge could free nothing")


@pytest.mark.parametrize(
    ("status", "caution"),
    [
        ({"state": "stopped"}, "as last seen: the engine is not running"),
        ({"snapshotsError": "no\x1banswer"}, "as last seen: the engine cannot be asked now: no?answer"),
    ],
    ids=["of a detached volume", "of an engine that does not answer"],
)
def test_what_may_be_old_is_said(status: dict[str, Any], caution: str) -> None:
    assert text.tree(found(*CHAIN, **status), now=NOW).splitlines()[-1] == caution


def test_names_never_move_the_cursor() -> None:
    assert "evil?[2J" in text.tree(found(entry("evil\x1b[2J"), entry(HEAD)), now=NOW)


def table(given: list[FoundVolume], output: str = "table") -> str:
    return shown(given, text.layout(wide=output == "wide"), OutputFormat(output), now=NOW)


def test_a_table_of_volumes() -> None:
    bare = FoundVolume(volume=msgspec.convert({"metadata": {"name": "pvc-0"}, "spec": {"size": "4096"}}, Volume))
    assert table(text.in_order([bare, found(*CHAIN)])) == (
        "VOLUME   CLAIM       STATE      SIZE   USED     SNAPSHOTS   RECLAIMABLE   AGE\n"
        "pvc-1    shop/data   attached   8Mi    11.5Mi   4           2.5Mi         3h\n"
        "pvc-0    -           -          4Ki    -        -           -             -"
    )


def test_a_wide_table_shows_the_engine() -> None:
    row = table([found(*CHAIN)], "wide").splitlines()[1].split()
    assert row[-5:] == ["-", "healthy", "pvc-1-e-0", "running", "512Ki"]


def test_json_has_whole_bytes() -> None:
    shown = text.as_json(found(*CHAIN))
    assert (shown["sizeBytes"], shown["usedBytes"], shown["reclaimableBytes"]) == (8 * MIB, 23 * MIB // 2, 5 * MIB // 2)
    assert [one["name"] for one in shown["snapshots"] if one["removed"]] == ["last"]
    assert [one["name"] for one in shown["snapshots"] if one["head"]] == [HEAD]


def test_names_are_what_kubectl_takes() -> None:
    assert text.names(found(entry("a"), entry(HEAD, "a"))) == "snapshot.longhorn.io/a"
    assert table([found()], "name") == "volume.longhorn.io/pvc-1"
