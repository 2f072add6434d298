"""What a cluster's controllers and kubelet would do, on one machine: claims bind to real directories, pods run, jobs finish.

types          the kinds, as far as decisions need them; names and marks that others look for
rules/         pure decisions: binding, provision, longhorn, pods, commands, jobs, sets, unsupported
claims         binds claims and volumes; volumes: makes them and takes them away; directories: where their files live
longhorn       Volumes have engines on a host, attached while somebody needs them; stock: what is known of them;
               longhorn_claims: for claims; clones: filled from snapshots
pods           pods come to run; runs: what a job's pod does until it ends; copying: trees of files
workloads      Jobs and StatefulSets; node: the one that all pods are on; api: calls that only the world makes
unsupported    Deployments and their like, which nobody plays: they say so
slice          puts these together, with what they may do

No container is ever run, and nothing that a user wrote reaches a shell.
"""
