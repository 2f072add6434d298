"""Where a Volume of Longhorn gets its first data from."""

from __future__ import annotations

import pytest

from ullage.engines.api import Volume, VolumeSpec
from ullage.engines.handles import SnapshotHandle
from ullage.errors import BadInput
from ullage.standalone.world.longhorn import source_of


def test_where_data_comes_from() -> None:
    assert source_of(Volume(spec=VolumeSpec(data_source="snap://vol-1/s.1"))) == SnapshotHandle("vol-1", "s.1")
    assert source_of(Volume()) is None


@pytest.mark.parametrize("given", ["vol://a", "snap://a", "snap://a/", "snap://a/../b", "snap:///b", "snap://a/b/c"])
def test_a_source_that_cannot_be_read_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="snap://VOLUME/SNAPSHOT is allowed"):
        source_of(Volume(spec=VolumeSpec(data_source=given)))
