"""Which StorageClass is the default. Which volume suits a claim is in the tests of binding."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import storage_class
from ullage.kube.builtin.storage import StorageClass
from ullage.standalone.world.matching import default_of


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        pytest.param([storage_class("a")], None, id="none is the default"),
        pytest.param([storage_class("a"), storage_class("b", default=True)], "b", id="one is"),
        pytest.param(
            [storage_class("b", default=True, created="2026-01-01"), storage_class("a", default=True, created="2026-01-02")],
            "a",
            id="of two the newer",
        ),
        pytest.param(
            [storage_class("b", default=True), storage_class("a", default=True)], "a", id="of equals the first by name"
        ),
    ],
)
def test_which_class_is_the_default(classes: list[StorageClass], name: str | None) -> None:
    assert default_of(classes) == name
