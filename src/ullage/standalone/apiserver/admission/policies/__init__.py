"""ValidatingAdmissionPolicies: rules in CEL that the server itself holds requests to.

expressions.py   what an expression may read, and how it is compiled
model.py         policies and their bindings, compiled
enforce.py       which of them concern a request, and what they say to it
"""
