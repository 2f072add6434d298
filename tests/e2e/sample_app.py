"""The command `ullage` with one small slice: barrels, which are filled by a controller, emptied before they go, and refused by
a hook when they are too large."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import ullage.app
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, own
from ullage.kube.events.reason import Reason
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.objects import is_deleting
from ullage.kube.policies import Demand, Policy
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Part, Slice, Wiring, Write

GROUP = "app.example.com"
EMPTIED = "app.example.com/emptied"
LARGEST = 200
FILLED = Reason("Filled")


class BarrelSpec(Value):
    """What the barrel should be."""

    litres: int = 0
    """How much fits in."""


class BarrelStatus(Value):
    """What the barrel is."""

    litres: int | None = None
    """How much is in it."""


class Barrel(Object):
    """Barrel holds what its controller fills in."""

    spec: BarrelSpec = BarrelSpec()
    status: BarrelStatus = BarrelStatus()


class CaskSpec(Value):
    """What the cask should be."""

    owner: str = ""
    """Whose it is."""


class Cask(Object):
    """Cask belongs to another product."""

    spec: CaskSpec = CaskSpec()


BARRELS = Kind(GROUP, "v1", "Barrel", "barrels", Barrel)
CASKS = Kind("other.example.com", "v1", "Cask", "casks", Cask, whole=False, status=False)


def controllers(wiring: Wiring) -> Iterable[Controller[Key]]:
    barrels, recorder, client = wiring.cache(BARRELS), wiring.recorder("barrels"), wiring.client

    async def reconcile(key: Key) -> None:
        barrel = barrels.get(key)
        if barrel is None:
            return
        held = EMPTIED in barrel.metadata.finalizers
        if is_deleting(barrel.metadata) or not held:
            finalizers = [] if is_deleting(barrel.metadata) else [EMPTIED]
            if held or finalizers:
                change = {"metadata": {"finalizers": finalizers}}
                await client.patch(BARRELS, key.name, key.namespace, merge=change, uid=barrel.metadata.uid)
        elif barrel.status.litres != barrel.spec.litres:
            filled = {"status": {"litres": barrel.spec.litres}}
            await client.patch(BARRELS, key.name, key.namespace, merge=filled, subresource="status")
            recorder.record(BARRELS, barrel, FILLED, note="to the brim")

    yield Controller("barrels", [own(barrels)], reconcile, metrics=wiring.metrics)


def hooks(wiring: Wiring) -> Iterable[Hook]:
    casks = wiring.cache(CASKS)

    async def answer(review: Review) -> Decision:
        litres = review.object(BARRELS).spec.litres
        if litres > LARGEST:
            return Decision.refuse(f"{litres} litres are more than {LARGEST}, and there are {len(casks)} casks")
        return Decision.allow()

    yield Hook(name="barrels", phase="validate", targets=(Target.of(BARRELS, "CREATE", "UPDATE"),), answer=answer)


SLICE = Slice(
    name="barrels",
    kinds=(BARRELS,),
    foreign=(CASKS,),
    controllers=Part(make=controllers, watches=(BARRELS,), writes=(Write(BARRELS, ("patch",), ("", "status")),), events=True),
    hooks=Part(make=hooks, watches=(CASKS,)),
    policies=(
        Policy(
            name="barrels-kept",
            kinds=(BARRELS,),
            variables={"notes": "(has(object.metadata.annotations) ? object.metadata.annotations : {})"},
            demands=(Demand("!('app.example.com/poured' in variables.notes)", "what is poured is told by the cooper alone"),),
        ),
    ),
)

if __name__ == "__main__":
    ullage.app.main(lambda chosen: (SLICE,), program=(sys.executable, __file__))
