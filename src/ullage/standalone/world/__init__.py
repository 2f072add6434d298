"""What a cluster, kubelet, Longhorn and KubeVirt do, on one machine: claims bind to directories, pods and VMs run, jobs copy.

controllers/  one module for each kind, with its pure rules in it or beside it (`<kind>_rules`)
model         names and annotations that are shared with a cluster; longhorn, machines: those of Longhorn and of VMs
nodes         which node a pod gets; launchers: the pods that VMs run in; quotas: what Rancher limits a namespace to
matching      which volume suits a claim; lookup, migrations: the caches, and how objects are found; migration_phases
calls         requests that the typed client has no method for; pod_owner: what Jobs and StatefulSets share
directories   where volumes live; slice: puts all together. No container is ever run, and nothing of a user reaches a shell.
"""
