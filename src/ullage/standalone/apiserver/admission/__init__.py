"""Between a handler and the store: who may refuse a write, or fill it in.

builtin      the server's own admission, in order (plugins: the steps that need no more than the object and the store)
webhooks/    webhooks that others register
policies/    ValidatingAdmissionPolicies
match        which webhooks or policies a request concerns: rules, selectors, conditions
review       the AdmissionReview: what a webhook is told, and what it may answer (attributes: what admission knows of a request)
"""
