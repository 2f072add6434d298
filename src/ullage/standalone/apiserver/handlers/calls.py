"""One write request on its way through the handlers: who asks for what, where identity comes from, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ullage.clock import Clock
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.write_options import WriteOptions
from ullage.standalone.apiserver.storage.entries import Entry

Change = Callable[[Json], Json]  # the live object (not to be changed) to the wanted one


@dataclass(slots=True)
class Call:
    """One write request, as the pipeline needs to know it."""

    user: User
    options: WriteOptions
    kind: str  # CreateOptions, UpdateOptions, PatchOptions
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    tracked: bool = False  # apply keeps managedFields itself
    size: int = 0  # of the body, in bytes

    def review_options(self, kind: str) -> Json:
        """The options as webhooks see them: a patch is an update to them, or a create."""
        shown: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.options.dry_run:
            shown["dryRun"] = ["All"]
        if self.options.manager:
            shown["fieldManager"] = self.options.manager
        if self.options.force is not None:
            shown["force"] = self.options.force
        shown["fieldValidation"] = self.options.validation
        return shown


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object as stored, and whether it came into being or went."""

    entry: Entry
    created: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where identity comes from: names, uids and time are arguments, so tests can choose them."""

    clock: Clock
    new_uid: Callable[[], str]
    suffix: Callable[[], str]

    def now(self) -> datetime:
        return self.clock.now()
