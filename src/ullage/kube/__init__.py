"""The only package that speaks to a Kubernetes API. A slice gives types, rules and a `reconcile` function; the rest is here.

kinds, objects, errors   what an API type is; conditions, owners, finalizers, names as pure functions; answers as errors
builtin/, crds/          types of the kinds that every cluster has; CustomResourceDefinitions from our own types
client/, cache/          one HTTP call each, typed objects in and out; list and watch of a kind into an indexed store
controller/, events/     keys, workers, leader election (backoff: how long until the next try); Events, rate limited
review, overlay          what a webhook is written with: Hook, Review, Decision
slices, metrics          what a slice hands to the composition root; Prometheus names
"""
