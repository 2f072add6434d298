"""Which proxy stands between us and the API server: the kubeconfig's, or the one that the environment names.

kubectl obeys HTTPS_PROXY, HTTP_PROXY and NO_PROXY, so a cluster that kubectl reaches must be reached from here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


def from_environment(server: str, environ: Mapping[str, str]) -> str:
    """The proxy's URL for a server's URL, or nothing. This machine is always reached directly."""
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    variable = f"{parts.scheme}_proxy"
    proxy = environ.get(variable.upper()) or environ.get(variable) or ""
    if not proxy or is_loopback(host):
        return ""
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_excepts(rule.strip().lower(), host.lower(), port) for rule in exceptions.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _excepts(rule: str, host: str, port: int) -> bool:
    """Whether one entry of NO_PROXY names the host: `*`, an address, a network, a domain; each with a port or without."""
    if not rule or rule == "*":
        return bool(rule)
    address = _address(host)
    if "/" in rule:
        return address is not None and _in_network(rule, address)
    if _address(rule.strip("[]")) is None:
        rule, _, wanted = rule.rpartition(":") if ":" in rule else (rule, "", "")
        if wanted and wanted != str(port):
            return False
    if address is not None:
        return _address(rule.strip("[]")) == address
    domain = rule.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not rule.startswith((".", "*")))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _in_network(rule: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(rule, strict=False)
    except ValueError:
        return False
