"""When a Volume of Longhorn is filled and attached, and the Engine that it gets. Pure."""

from __future__ import annotations

from datetime import datetime

from ullage.engines import tickets
from ullage.engines.api import VOLUME_LABEL, VOLUMES, Engine, EngineSpec, Volume
from ullage.kube.kinds import Meta
from ullage.kube.objects import owner_reference
from ullage.standalone.world.longhorn import clone_state
from ullage.standalone.world.model import NODE


def is_filled(volume: Volume) -> bool:
    """Whether it has the data that it is to begin with."""
    return not volume.spec.data_source or clone_state(volume) == "completed"


def wants_attached(volume: Volume, *, used: bool, now: datetime) -> bool:
    """`used`: a pod has it, or another volume is being filled from it. One that is not filled itself is nobody's yet."""
    held = any(tickets.is_valid(one, now) for one in (volume.spec.attachment_tickets or {}).values())
    return is_filled(volume) and (used or held or bool(volume.spec.node_id))


def engine_for(volume: Volume) -> Engine:
    """Whoever has this object knows that what the host has under the volume's name is this volume's."""
    meta = volume.metadata
    owner = owner_reference(VOLUMES, meta)
    return Engine(
        metadata=Meta(
            name=f"{meta.name}-e-0",
            namespace=meta.namespace,
            labels={VOLUME_LABEL: meta.name},
            owner_references=(owner,),
        ),
        spec=EngineSpec(volume_name=meta.name, volume_size=volume.spec.size, node_id=NODE, desire_state="stopped", active=True),
    )
