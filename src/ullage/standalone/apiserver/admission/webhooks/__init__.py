"""Admission: webhooks that others register, and the few rules that the API server brings itself.

match.py               which webhooks a request concerns: rules, selectors, conditions
review.py              the AdmissionReview that goes out, and what may come back
calls.py               the HTTPS call, and how its failures are worded
dispatch.py            the order of it all: mutating one after the other, validating side by side
builtin_admission.py   namespaces that are missing or going away, the default storage class
"""
