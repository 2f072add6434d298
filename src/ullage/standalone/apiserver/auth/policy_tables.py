"""The RBAC policy that a cluster starts with, as tables: data, read from a running kube-apiserver 1.36.

A line of a role is `groups | resources | verbs`, members apart by spaces; `core` is the group without a name, `read` and
`write` are the verbs behind them. A line of two members is `URLs | verbs`. `name=x` behind the resources limits a line to
objects of that name.
"""

from __future__ import annotations

VERB_SETS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}

CLUSTER_ROLES: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("* | * | *", "* | *"),
    "system:aggregate-to-admin": (
        "authorization.k8s.io | localsubjectaccessreviews | create",
        "rbac.authorization.k8s.io | rolebindings roles | all",
    ),
    "system:aggregate-to-edit": (
        "core | pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy | read",
        "core | serviceaccounts | impersonate",
        "core | pods pods/attach pods/exec pods/portforward pods/proxy | write",
        "core | pods/eviction | create",
        "core | configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts"
        " services services/proxy | write",
        "core | serviceaccounts/token | create",
        "core events.k8s.io | events | write",
        "apps | daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
        " statefulsets/scale | write",
        "autoscaling | horizontalpodautoscalers | write",
        "batch | cronjobs jobs | write",
        "extensions | daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
        " replicasets/scale replicationcontrollers/scale | write",
        "policy | poddisruptionbudgets | write",
        "networking.k8s.io | ingresses networkpolicies | write",
        "coordination.k8s.io | leases | all",
        "resource.k8s.io | resourceclaims resourceclaimtemplates | write",
    ),
    "system:aggregate-to-view": (
        "core | configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers"
        " replicationcontrollers/scale serviceaccounts services services/status | read",
        "core | bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas"
        " resourcequotas/status | read",
        "core | namespaces | read",
        "core events.k8s.io | events | read",
        "discovery.k8s.io | endpointslices | read",
        "apps | controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets"
        " replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status | read",
        "autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status | read",
        "batch | cronjobs cronjobs/status jobs jobs/status | read",
        "extensions | daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status"
        " networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale | read",
        "policy | poddisruptionbudgets poddisruptionbudgets/status | read",
        "networking.k8s.io | ingresses ingresses/status networkpolicies | read",
        "resource.k8s.io | resourceclaims resourceclaims/status resourceclaimtemplates | read",
    ),
    "system:auth-delegator": (
        "authentication.k8s.io | tokenreviews | create",
        "authorization.k8s.io | subjectaccessreviews | create",
    ),
    "system:basic-user": (
        "authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews | create",
        "authentication.k8s.io | selfsubjectreviews | create",
    ),
    "system:discovery": ("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/ | get",),
    "system:kube-controller-manager": (
        "core events.k8s.io | events | create patch update",
        "coordination.k8s.io | leases | create",
        "coordination.k8s.io | leases name=kube-controller-manager | get update",
        "core | secrets serviceaccounts | create",
        "core | secrets | delete",
        "core | configmaps namespaces secrets serviceaccounts | get",
        "core | secrets serviceaccounts | update",
        "authentication.k8s.io | tokenreviews | create",
        "authorization.k8s.io | subjectaccessreviews | create",
        "* | * | list watch",
        "core | serviceaccounts/token | create",
    ),
    "system:monitoring": (
        "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz | get",
        "core | nodes/metrics | get",
    ),
    "system:node": (
        "authentication.k8s.io | tokenreviews | create",
        "authorization.k8s.io | localsubjectaccessreviews subjectaccessreviews | create",
        "core | services | read",
        "core | nodes | create get list watch",
        "core | nodes/status | patch update",
        "core | nodes | patch update",
        "core events.k8s.io | events | create patch update",
        "core | pods | read",
        "core | pods | create delete",
        "core | pods/status | patch update",
        "core | pods/eviction | create",
        "core | configmaps secrets | read",
        "core | persistentvolumeclaims persistentvolumes | get",
        "core | endpoints | get",
        "certificates.k8s.io | certificatesigningrequests | create get list watch",
        "coordination.k8s.io | leases | create delete get patch update",
        "storage.k8s.io | volumeattachments | get",
        "core | serviceaccounts/token | create",
        "core | persistentvolumeclaims/status | get patch update",
        "storage.k8s.io | csidrivers | read",
        "storage.k8s.io | csinodes | create delete get patch update",
        "node.k8s.io | runtimeclasses | read",
        "resource.k8s.io | resourceclaims | get",
        "resource.k8s.io | resourceslices | deletecollection",
        "core | serviceaccounts | get",
    ),
    "system:persistent-volume-provisioner": (
        "core | persistentvolumes | create delete get list watch",
        "core | persistentvolumeclaims | get list update watch",
        "storage.k8s.io | storageclasses | read",
        "core | events | watch",
        "core events.k8s.io | events | create patch update",
    ),
    "system:public-info-viewer": ("/healthz /livez /readyz /version /version/ | get",),
    "system:service-account-issuer-discovery": (
        "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/ | get",
    ),
}

# Roles that gather the rules of others, by the label `aggregate-to-<name>`.
AGGREGATED = ("admin", "edit", "view")
# What each role is gathered into.
GATHERED_INTO = {
    "edit": "admin",
    "view": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
}

# Binding and role share a name.
CLUSTER_ROLE_BINDINGS: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("Group system:masters",),
    "system:basic-user": ("Group system:authenticated",),
    "system:discovery": ("Group system:authenticated",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
}
