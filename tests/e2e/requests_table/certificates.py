"""CertificateSigningRequests: who asks is the server's to say, and who grants needs a right on the signer."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .access import ROBOT, ROBOT_USER
from .case import MERGE_PATCH, Case, Check, Json, Step, post

GROUP = "certificates.k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GONE = (
    Step("DELETE", f"{REQUESTS}/{{ns}}"),
    Step("DELETE", f"{RBAC}/clusterrolebindings/{{ns}}"),
    Step("DELETE", f"{RBAC}/clusterroles/{{ns}}"),
)


def pem(*groups: str) -> str:
    name = [x509.NameAttribute(NameOID.COMMON_NAME, "somebody")]
    name += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(name))
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def request(signer: str, *groups: str, **spec: object) -> Json:
    made = {"request": pem(*groups), "signerName": signer, "usages": ["client auth"], **spec}
    return {"metadata": {"name": "{ns}"}, "spec": made}


def may(*rules: Json) -> tuple[Step, ...]:
    """The robot, with rights in the whole cluster."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "{ns}"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "{ns}"}
    last = rules[-1]
    asked = {
        "verb": last["verbs"][0],
        "group": GROUP,
        "resource": last["resources"][0].split("/")[0],
        "subresource": last["resources"][0].partition("/")[2],
        "name": last.get("resourceNames", [""])[0],
    }
    review = {"spec": {"user": ROBOT_USER, "resourceAttributes": asked}}
    return (
        *ROBOT,
        post(f"{RBAC}/clusterroles", {"metadata": {"name": "{ns}"}, "rules": list(rules)}),
        post(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "{ns}"}, "roleRef": role, "subjects": [subject]}),
        Step("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, until={"status.allowed": True}),
    )


def rule(resource: str, *verbs: str, **more: object) -> Json:
    return {"apiGroups": [GROUP], "resources": [resource], "verbs": list(verbs), **more}


CREATE = rule("certificatesigningrequests", "create")
APPROVE = rule("certificatesigningrequests/approval", "update", "patch")
SIGN = rule("certificatesigningrequests/status", "update", "patch")
MADE = (post(REQUESTS, request("example.com/own")),)
APPROVED: Json = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}}

CASES = (
    Case(
        "a request for a certificate names who asks, whatever it says",
        "POST",
        REQUESTS,
        request("example.com/own", username="admin", groups=["system:masters"], uid="u", extra={"a": ["b"]}),
        token="{token}",
        setup=may(CREATE),
        cleanup=GONE,
        expect=(201, ""),
        has={
            "spec.username": ROBOT_USER,
            "spec.groups": ["system:serviceaccounts", "system:serviceaccounts:{ns}", "system:authenticated"],
            "spec.extra.a": None,
        },
    ),
    Case(
        "nobody asks to be a master",
        "POST",
        REQUESTS,
        request("kubernetes.io/kube-apiserver-client", "system:masters"),
        cleanup=GONE,
        expect=(403, "Forbidden"),
        message='certificatesigningrequests.certificates.k8s.io "{ns}" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed',
    ),
    Case(
        "what was asked for does not change",
        "PATCH",
        f"{REQUESTS}/{{ns}}",
        {"metadata": {"labels": {"a": "b"}}, "spec": {"username": "admin"}},
        headers=MERGE_PATCH,
        setup=MADE,
        cleanup=GONE,
        has={"spec.username": "admin", "metadata.labels.a": "b", "spec.signerName": "example.com/own"},
    ),
    Case(
        "an approval wants the right to the signer",
        "PATCH",
        f"{REQUESTS}/{{ns}}/approval",
        APPROVED,
        headers=MERGE_PATCH,
        token="{token}",
        setup=(*MADE, *may(APPROVE)),
        cleanup=GONE,
        expect=(403, "Forbidden"),
        message='certificatesigningrequests.certificates.k8s.io "{ns}" is forbidden: user not permitted to approve requests with signerName "example.com/own"',
        then=(Check(f"{REQUESTS}/{{ns}}", has={"status.conditions": None}),),
    ),
    *(
        Case(
            f"the right to {what} is enough for an approval",
            "PATCH",
            f"{REQUESTS}/{{ns}}/approval",
            APPROVED,
            headers=MERGE_PATCH,
            token="{token}",
            setup=(*MADE, *may(APPROVE, rule("signers", "approve", resourceNames=[name]))),
            cleanup=GONE,
            has={"status.conditions[0].type": "Approved"},
        )
        for what, name in (("the signer", "example.com/own"), ("the signers of its domain", "example.com/*"))
    ),
    Case(
        "a signature wants the right to sign",
        "PATCH",
        f"{REQUESTS}/{{ns}}/status",
        {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": "m"}]}},
        headers=MERGE_PATCH,
        token="{token}",
        setup=(*MADE, *may(SIGN)),
        cleanup=GONE,
        expect=(403, "Forbidden"),
        message='certificatesigningrequests.certificates.k8s.io "{ns}" is forbidden: user not permitted to sign requests with signerName "example.com/own"',
    ),
    Case(
        "a status approves nothing",
        "PATCH",
        f"{REQUESTS}/{{ns}}/status",
        APPROVED,
        headers=MERGE_PATCH,
        setup=MADE,
        cleanup=GONE,
        expect=(422, "Invalid"),
        message='CertificateSigningRequest.certificates.k8s.io "{ns}" is invalid: status.conditions: Forbidden: updates may not add a condition of type "Approved"',
        then=(Check(f"{REQUESTS}/{{ns}}", has={"status.conditions": None}),),
    ),
)
