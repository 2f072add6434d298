"""The HTTPS server that the API server asks before it stores something.

endpoint              decodes, routes to a slice's hook within its budget, encodes; admission_review: the AdmissionReview itself
run                   the order of things from the certificate to the stop
certificate_rotation  the certificates, as `serving` keeps them, with what API servers trust in the registration
paths                 our own cluster's paths, which cannot be guessed, as a state machine; path_rotation: carries it out
registration          the webhook configurations; selftest: do requests really arrive?
callers, elsewhere    other clusters: which of them asks, and the configurations there; caller_limits: how much one may ask
"""
