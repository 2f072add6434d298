"""What a cluster's controllers, kubelet and Longhorn do, on one machine: claims bind to real directories, pods run, Jobs end.

controllers/  a folder for each kind, with its pure `rules` beside the controller
model         names and annotations that are shared with a cluster's own controllers; longhorn: the same for Longhorn's kinds
matching      which volume suits a claim; lookup: the caches, and how one object is found from another
calls         requests that the typed client has no method for; pod_owner: what Jobs and StatefulSets share
directories   where volumes live; slice: puts all together. No container is ever run, and nothing of a user reaches a shell.
"""
