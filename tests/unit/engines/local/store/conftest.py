"""A store on a real disk, and a volume in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.engines.local.store.letters import SIZE
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "volumes")
    yield store
    store.close()


@pytest.fixture
def volume(store: Store) -> StoredVolume:
    return store.create("v", size=SIZE)
