"""Addresses and node ports for Services, each given once.

What is taken follows from the Services that exist, so nothing has to be stored and nothing can leak: a Service that goes
frees what it had. Between the moment a request is given something and the moment its write is seen, the request's task holds
it; when the task ends without a write, it is free again.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import Iterator

import msgspec

from ullage.standalone.apiserver.kinds.metadata import ip_address
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.kinds.strategies.services import (
    EXTERNAL,
    NODE_PORTS,
    RANGE,
    lacking_ports,
    port_candidates,
    wants_health_port,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, internal_error, invalid, invalid_value
from ullage.standalone.apiserver.storage.entries import Event, Key
from ullage.standalone.apiserver.storage.store import Store

SERVICES = "services"
STATIC = 255  # the lowest addresses are left to those who choose their own
TAKEN = "already allocated"

Good = str | int  # an address or a port


class ServiceAddresses:
    """Gives each Service the address and the ports that its name hashes to, or the next free ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._taken: dict[Good, Key] = {}
        self._held: dict[Good, asyncio.Task[object]] = {}
        self._waiting: dict[asyncio.Task[object], Key] = {}  # tasks that hold something, and the Service it is for
        for entry in store.items(SERVICES):
            self._taken |= dict.fromkeys(_goods(entry.obj()), entry.key)
        store.listeners.append(self._on_event)

    def allocate(self, service: Json) -> None:
        """Sets what the Service's type wants and it does not have. Raises 422 for something that is not to be had."""
        meta, spec = service["metadata"], part(service, "spec")
        key = (meta.get("namespace", ""), meta.get("name", ""))
        if spec.get("type") != "ExternalName":
            self._address(key, spec)
        if spec.get("type") in EXTERNAL:
            self._given_ports(key, spec)
            self._missing_ports(key, service)
            self._health_port(key, spec)

    # --- addresses ---

    def _address(self, key: Key, spec: Json) -> None:
        asked = spec.get("clusterIP")
        if asked == "None" or (not asked and spec.get("clusterIPs")):
            return
        if not asked:
            found = next((address for address in _addresses(key) if self._free(address, key)), None)
            if found is None:
                raise internal_error("failed to allocate a serviceIP: range is full")
            spec["clusterIP"], spec["clusterIPs"] = found, [found]
            self._hold(found, key)
        elif not ip_address(asked):  # validation has the words for anything else
            fault = self._fault(asked, key)
            if fault:
                shown = invalid_value("spec.clusterIPs", [asked], f"failed to allocate IP {asked}: {fault}")
                raise invalid("", "Service", key[1], [shown])
            self._hold(asked, key)

    def _fault(self, address: str, key: Key) -> str:
        at = ipaddress.ip_address(address)
        if at not in RANGE or at in (RANGE.network_address, RANGE.broadcast_address):
            return "the provided network does not match the current range"
        return "" if self._free(address, key) else f"provided IP is {TAKEN}"

    # --- ports ---

    def _given_ports(self, key: Key, spec: Json) -> None:
        """Ports that the Service chose. Two of its own may share a number if their protocols differ."""
        seen: dict[int, set[object]] = {}
        for index, port in enumerate(items(spec, "ports")):
            number = port.get("nodePort")
            if not number:
                continue
            shared = seen.setdefault(number, set())
            fault = f"provided port is {TAKEN}" if port.get("protocol") in shared else self._port_fault(number, key)
            if fault:
                raise invalid("", "Service", key[1], [invalid_value(f"spec.ports[{index}].nodePort", number, fault)])
            shared.add(port.get("protocol"))
            self._hold(number, key)

    def _missing_ports(self, key: Key, service: Json) -> None:
        """One node port for each that lacks one; the same for the same port under another protocol."""
        known = {port.get("port"): port["nodePort"] for port in items(service, "spec", "ports") if port.get("nodePort")}
        for port in lacking_ports(service):
            number = known.get(port.get("port"))
            if number is None:
                number = known[port.get("port")] = self._any_port(key, f"{'/'.join(key)}:{port.get('port')}")
            port["nodePort"] = number

    def _health_port(self, key: Key, spec: Json) -> None:
        if not wants_health_port(spec):
            return
        number = spec.get("healthCheckNodePort")
        if not number:
            spec["healthCheckNodePort"] = self._any_port(key, f"{'/'.join(key)}:health")
        elif fault := self._port_fault(number, key):
            raise _unhealthy(number, fault)
        else:
            self._hold(number, key)

    def _any_port(self, key: Key, seed: str) -> int:
        for number in port_candidates(seed):
            if self._free(number, key) and not self._is_held(number):
                self._hold(number, key)
                return number
        raise internal_error("failed to allocate a nodePort: range is full")

    def _port_fault(self, number: int, key: Key) -> str:
        if number not in NODE_PORTS:
            span = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
            return f"provided port is not in the valid range. The range of valid ports is {span}"
        return "" if self._free(number, key) else f"provided port is {TAKEN}"

    # --- who has what ---

    def _free(self, good: Good, key: Key) -> bool:
        """Whether the Service may have it: nobody has it, or it does itself."""
        return self._taken.get(good, key) == key and self._held.get(good, _task()) is _task()

    def _is_held(self, good: Good) -> bool:
        return good in self._held or good in self._taken

    def _hold(self, good: Good, key: Key) -> None:
        if good in self._taken:
            return
        task = self._held[good] = _task()
        if task not in self._waiting:
            task.add_done_callback(self._release)
        self._waiting[task] = key

    def _release(self, task: asyncio.Task[object]) -> None:
        """A request is over. What it held is free, unless its write is still on the way to the disk."""
        entry = self._store.head(SERVICES, *self._waiting.pop(task))
        written = _goods(entry.obj()) if entry else set()
        for good in [good for good, holder in self._held.items() if holder is task and good not in written]:
            del self._held[good]

    def _on_event(self, storage: str, event: Event) -> None:
        if storage != SERVICES:
            return
        if event.before is not None:
            for good in _goods(msgspec.json.decode(event.before)):
                self._taken.pop(good, None)
        if event.type != "DELETED":
            for good in _goods(msgspec.json.decode(event.data)):
                self._taken[good] = event.key
                self._held.pop(good, None)


def _task() -> asyncio.Task[object]:
    found = asyncio.current_task()
    if found is None:
        raise AssertionError("Services are written by requests, and these are tasks")
    return found


def _goods(service: Json) -> set[Good]:
    spec = part(service, "spec")
    numbers = [port.get("nodePort") for port in items(spec, "ports")]
    found = [*items(spec, "clusterIPs"), *numbers, spec.get("healthCheckNodePort")]
    return {good for good in found if good and good != "None"}


def _addresses(key: Key) -> Iterator[str]:
    size = RANGE.num_addresses - STATIC - 1
    start = int.from_bytes(hashlib.sha256("/".join(key).encode()).digest()[:4], "big")
    return (str(RANGE.network_address + STATIC + (start + step) % size) for step in range(size))


def _unhealthy(number: int, fault: str) -> ApiError:
    return internal_error(f"failed to allocate requested HealthCheck NodePort {number}: {fault}")
