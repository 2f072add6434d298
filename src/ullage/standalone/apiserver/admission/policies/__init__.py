"""ValidatingAdmissionPolicies: policies and their bindings, compiled (model); what they say to a request (enforce). What their
expressions may read is in `kinds.strategies.admission.policy_expressions`: it is checked when a policy is written, too.
"""
