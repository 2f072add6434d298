"""Who is asking, and may they?

users           a request's identity: certificate, bearer token, or nobody
impersonation   acting as somebody else, where that is allowed
tokens          the bearer tokens: the administrator's, and the signed ones of service accounts
token_requests  the tokens that service accounts are given
rules           one RBAC rule: what it allows, and whether others cover it
rbac            roles and bindings, compiled into decisions
escalation      nobody hands out rights that they do not hold
reviews         the same questions asked over the API (SubjectAccessReview, TokenReview, ...)
bootstrap       the objects and the policy that every cluster starts with (policy_tables: the data)
"""
