"""What the server does on its own when objects change. None knows another; each has a `workqueue`.

crds                CustomResourceDefinitions are put into service and out of it
garbage_collector   owner references: what goes when its owner goes
namespaces          the end of a namespace, and what each is given at its beginning
root_ca             the ConfigMap `kube-root-ca.crt` in every namespace
role_aggregation    aggregated ClusterRoles
"""
