"""A store on a real disk, and a volume in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engines.local.letters import SIZE
from ullage.engines.local.store import Store
from ullage.engines.local.volume import Volume


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "volumes")
    yield store
    store.close()


@pytest.fixture
def volume(store: Store) -> Volume:
    return store.create("v", size=SIZE)
