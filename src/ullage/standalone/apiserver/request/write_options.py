"""The query parameters of writes, checked as kube-apiserver checks them."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.standalone.apiserver.request.parameters import META
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import FieldError, invalid, invalid_value, not_supported


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a create, update or patch was asked to do beside storing."""

    dry_run: bool
    manager: str
    validation: str  # Ignore, Warn, Strict
    force: bool | None


def internal(manager: str, *, force: bool | None = None) -> WriteOptions:
    """Of a write that the server itself makes: fields that it does not know are nothing to warn anybody of."""
    return WriteOptions(dry_run=False, manager=manager, validation="Ignore", force=force)


def write_options(request: Request, kind: str) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: a refusal names it. Raises 400 or 422."""
    errors = [
        not_supported("dryRun", request.query["dryRun"], ["All"])
        for value in request.query.get("dryRun", ())
        if value and value != "All"
    ][:1]
    manager = request.param("fieldManager")
    if len(manager.encode()) > 128:
        errors.append(FieldError("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes"))
    if any(not char.isprintable() for char in manager):
        errors.append(invalid_value("fieldManager", manager, "should only contain printable characters"))
    validation = request.param("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if errors:
        raise invalid(META, kind, "", errors)
    return WriteOptions(
        dry_run=bool(request.param("dryRun")),
        manager=manager or _agent(request.headers.get("user-agent", "")),
        validation=validation,
        force=request.flag("force") if "force" in request.query else None,
    )


def _agent(header: str) -> str:
    """The program behind a User-Agent, as the manager of the fields it writes. Who does not say is unknown."""
    printable = "".join(filter(str.isprintable, header.partition("/")[0]))
    return printable.encode()[:128].decode(errors="ignore") or "unknown"
