"""Which of a volume's engines counts, and what its head has."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.engines.builders import engine, info
from ullage.engines import model
from ullage.engines.api import Engine, EngineSpec
from ullage.engines.chain import HEAD
from ullage.engines.merging import merges_of
from ullage.engines.model import active_engine, head_size
from ullage.kube.kinds import Meta


def one(name: str, *, head: str | None = None, active: bool = False) -> Engine:
    found = engine(*(() if head is None else (info(HEAD, size=head),)))
    return replace(found, metadata=Meta(name=name), spec=EngineSpec(volume_name="vol", active=active))


@pytest.mark.parametrize(
    ("engines", "chosen"),
    [
        pytest.param([], None, id="a volume without an engine"),
        pytest.param([one("a", head="5")], "a", id="its only engine, whatever that says of itself"),
        pytest.param([one("a", head="5", active=True), one("b", head="9")], "a", id="of two, the active one"),
        pytest.param([one("a", head="5"), one("b", active=True)], "b", id="the active one, although nobody has asked it yet"),
        pytest.param([one("a", head="5"), one("b", head="9")], "b", id="none is active: the larger head"),
        pytest.param(
            [one("a", head="9", active=True), one("b", head="5", active=True)], "a", id="both are active: the larger head"
        ),
        pytest.param([one("a"), one("b")], "b", id="nothing is known of either: always the same one"),
    ],
)
def test_the_engine_that_counts(engines: list[Engine], chosen: str | None) -> None:
    for order in (engines, engines[::-1]):
        found = active_engine(order)
        assert (found.metadata.name if found else None) == chosen


@pytest.mark.parametrize(
    ("engines", "looks"),
    [
        pytest.param([one("a", head="1")], 0, id="one alone"),
        pytest.param([one("a", head="1", active=True), one("b", head="9")], 0, id="one that says so"),
        pytest.param([one("a", head="1"), one("b", head="9")], 2, id="two that say nothing"),
    ],
)
def test_heads_are_compared_only_where_nothing_else_tells(
    engines: list[Engine], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To know what a head would take means to merge all snapshots of the volume."""
    merged: list[object] = []

    def merges(entries: object, **more: object) -> object:
        merged.append(entries)
        return merges_of(entries, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "merges_of", merges)
    assert active_engine(engines) is not None
    assert len(merged) == looks


@pytest.mark.parametrize(
    ("head", "size"),
    [
        pytest.param("4096", 4096, id="bytes"),
        pytest.param("0", 0, id="nothing was written"),
        pytest.param(None, None, id="the engine was not seen yet"),
        pytest.param("", None, id="a head without a size is not an empty one"),
        pytest.param("4Ki", None, id="nor is one with a size that cannot be read"),
    ],
)
def test_the_size_of_the_head(head: str | None, size: int | None) -> None:
    assert head_size(one("a", head=head)) == size
