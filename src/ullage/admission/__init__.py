"""The HTTPS server that the API server asks before it stores something.

endpoint, bodies      decodes, routes to a slice's hook within its budget, encodes; admission_review: the AdmissionReview itself
server, run           TLS and sockets; the order of things from the certificate to the stop
certificates          the rotation as a pure state machine; certificate_rotation: carries it out on the shared Secret
registration          the webhook configurations; selftest: do requests really arrive?
callers, elsewhere    other clusters: which of them asks, and the configurations there
"""
