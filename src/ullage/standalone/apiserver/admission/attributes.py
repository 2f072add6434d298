"""What admission knows of one request."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json


@dataclass(slots=True)
class Attributes:
    """One request on its way through admission. Mutating webhooks replace `object`; nobody changes it in place."""

    operation: str  # CREATE UPDATE DELETE CONNECT
    resource: Resource
    subresource: str
    namespace: str
    name: str
    object: Json | None
    old: Json | None
    options: Json
    user: User
    dry_run: bool = False

    @property
    def is_namespace(self) -> bool:
        """Whether the request is about a Namespace: to webhooks such an object lies in itself."""
        return self.resource.plural == "namespaces" and not self.resource.group
