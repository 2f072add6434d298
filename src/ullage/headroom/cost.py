"""What a machine costs, as it is stamped on it. Pure.

Costs move with KubeVirt's version and settings, and with the quotas of a namespace: what a machine was admitted with stands on
it, and is not worked out again for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.headroom.accounts import CPU, MEMORY
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.ledger.charging.stamps import COST, BadStamp
from ullage.quantity import Format, Quantity
from ullage.vms.pricing import Pricing

FIELD: Final = f"metadata.annotations[{COST}]"
_MILLI: Final = 10**6  # nano-units
_TEMPLATE: Final = "spec.template.spec"
_decoder: Final = msgspec.json.Decoder(dict[str, str])


def machine_cost(machine: Mapping[str, Any], pricing: Pricing) -> Amounts:
    """Of a VirtualMachine's whole body: what its template would cost. Raises BadInput, which names the field."""
    template = _part(_part(machine, "spec"), "template")
    return spec_cost(_part(template, "spec"), pricing, _annotations(template))


def instance_cost(instance: Mapping[str, Any], pricing: Pricing) -> Amounts:
    """Of a VirtualMachineInstance's whole body. Raises as above."""
    try:
        return spec_cost(_part(instance, "spec"), pricing, _annotations(instance))
    except BadInput as error:
        raise BadInput(error.where.replace(_TEMPLATE, "spec", 1), error.given, error.problem) from error


def spec_cost(spec: Mapping[str, Any], pricing: Pricing, annotations: Mapping[str, str] | None = None) -> Amounts:
    found = pricing.cost_of(spec, annotations)
    return Amounts({CPU: Quantity(found.cpu * _MILLI), MEMORY: Quantity.of(found.memory, Format.BINARY_SI)})


def write_cost(amounts: Amounts) -> str:
    """`{"cpu":"1","memory":"1222Mi"}`. Equal amounts always give the same text."""
    return msgspec.json.encode(amounts.written()).decode()


def read_cost(meta: Meta) -> Amounts:
    """What an instance is stamped to cost. Raises BadStamp where nobody has stamped it, or it cannot be read."""
    text = meta.annotations.get(COST)
    if text is None:
        raise BadStamp(f"{FIELD}: it is missing")
    try:
        return Amounts.parse(_decoder.decode(text))
    except (msgspec.DecodeError, BadAmount) as error:
        raise BadStamp(f"{FIELD}: {error}") from error


def _annotations(body: Mapping[str, Any]) -> dict[str, str]:
    found = _part(_part(body, "metadata"), "annotations")
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _part(body: Mapping[str, Any], name: str) -> Json:
    """What another product defines may be anything, as far as the API server is concerned."""
    found = body.get(name)
    return found if isinstance(found, dict) else {}
