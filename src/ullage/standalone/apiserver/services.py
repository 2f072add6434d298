"""Cluster addresses for Services: an allocator would need state of its own, so the address follows from the name."""

from __future__ import annotations

import hashlib
import ipaddress

from ullage.standalone.apiserver.resources import dig
from ullage.standalone.apiserver.status import Json, invalid, invalid_value
from ullage.standalone.apiserver.store import Store

RANGE = ipaddress.ip_network("10.96.0.0/16")


class ClusterIPs:
    """Gives each Service the address that its name hashes to, or the next free one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[int, frozenset[str]] = (-1, frozenset())

    def fill(self, service: Json, old: Json | None) -> None:
        """Sets `clusterIP` and `clusterIPs` where the Service's type wants one. Raises 422 for one that is taken."""
        spec = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            return
        if old is not None and not spec.get("clusterIP") and dig(old, "spec", "clusterIP"):
            spec["clusterIP"] = old["spec"]["clusterIP"]
        asked = spec.get("clusterIP")
        if not asked:
            spec["clusterIP"] = self._free(service["metadata"])
        elif asked != "None" and asked in self._taken() and asked != dig(old, "spec", "clusterIP"):
            fault = invalid_value(
                "spec.clusterIPs", [asked], f"failed to allocate IP {asked}: provided IP is already allocated"
            )
            raise invalid("", "Service", service["metadata"].get("name", ""), [fault])
        spec["clusterIPs"] = [spec["clusterIP"]]

    def _taken(self) -> frozenset[str]:
        touched = self._store.touched("services")
        if self._known[0] != touched:
            found = (dig(entry.obj(), "spec", "clusterIP") for entry in self._store.items("services"))
            self._known = (touched, frozenset(address for address in found if address))
        return self._known[1]

    def _free(self, meta: Json) -> str:
        taken = self._taken()
        digest = hashlib.sha256(f"{meta.get('namespace')}/{meta.get('name', meta.get('generateName'))}".encode()).digest()
        size = RANGE.num_addresses - 256  # the lowest are left to those who choose their own
        start = int.from_bytes(digest[:4], "big")
        for step in range(size):
            address = str(RANGE.network_address + 255 + (start + step) % size)
            if address not in taken:
                return address
        raise AssertionError("more services than addresses")
