"""The names of volumes and directories."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import UID
from ullage.standalone.world.model import uid_of, volume_name


@pytest.mark.parametrize("uid", ["", "..", "../../etc", f"{UID}/x", UID.replace("1", "A"), f"{UID}\n"])
def test_only_a_uid_makes_a_name(uid: str) -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        volume_name(uid)
    assert uid_of(f"pvc-{uid}") is None


def test_a_name_gives_its_uid_back() -> None:
    assert uid_of(volume_name(UID)) == UID
