"""The API server's own admission, in the order in which a write meets it: before the mutating webhooks, and before the
validating ones. What needs no more than the object and the store is in `plugins`."""

from __future__ import annotations

from ullage.standalone.apiserver.admission import plugins
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.auth import signing_requests
from ullage.standalone.apiserver.auth.escalation import Escalation
from ullage.standalone.apiserver.auth.rbac import GROUP as RBAC
from ullage.standalone.apiserver.objects import dig
from ullage.standalone.apiserver.status import forbidden
from ullage.standalone.apiserver.storage.store import Store

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class BuiltinAdmission:
    def __init__(self, store: Store, escalation: Escalation, signing: signing_requests.SigningRequests) -> None:
        self._store = store
        self._signing = signing
        self._escalation = escalation

    def admit(self, attrs: Attributes) -> None:
        """Before the mutating webhooks: it may refuse, and may fill in the object."""
        if attrs.resource.custom is not None and attrs.operation == "CREATE":
            self._check_living(attrs)
        self._identify(attrs)
        plugins.admit(attrs, self._store)

    def validate(self, attrs: Attributes) -> None:
        """The last word before the validating webhooks: nobody hands out rights that they do not have."""
        plugins.validate(attrs, self._store)
        if attrs.object is None:
            return
        if attrs.resource.group_resource == signing_requests.RESOURCE:
            self._identify(attrs)  # once more: webhooks have had their say
            refusal = self._signing.check(attrs.user, attrs.subresource, new=attrs.object, old=attrs.old)
            if refusal is not None:
                raise refusal
        if attrs.resource.group != RBAC:
            return
        refusal = self._escalation.check(
            attrs.user, attrs.resource.plural, new=attrs.object, old=attrs.old, namespace=attrs.namespace
        )
        if refusal is not None:
            raise refusal

    def _identify(self, attrs: Attributes) -> None:
        """Who asks for a certificate is the server's to say."""
        if attrs.resource.group_resource == signing_requests.RESOURCE and attrs.operation == "CREATE" and attrs.object:
            signing_requests.identify(attrs.object, attrs.user)

    def _check_living(self, attrs: Attributes) -> None:
        """Nothing comes into being of a kind that is going."""
        resource = attrs.resource
        definition = self._store.get(DEFINITIONS, "", resource.group_resource)
        if definition is None or b'"deletionTimestamp"' not in definition.data:  # nearly always
            return
        if dig(definition.obj(), "metadata", "deletionTimestamp"):
            text = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.group, resource.plural, attrs.name, text)
