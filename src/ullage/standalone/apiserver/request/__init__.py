"""One request as Kubernetes reads it, and the forms that its answer can take.

request                            path and method as verb, group, resource, namespace, name, subresource
list_options, filter, continuation, write_options, delete_options, parameters   the query, checked as kube-apiserver does
decoding                           the body as an object of the kind that the URL names; unknown and repeated fields
negotiation                        what `Accept` asks for: objects, a Table, metadata only; JSON or YAML
deadlines, answers, document       how long it may take; a whole answer, a stream, or a document that is sent many times
"""
