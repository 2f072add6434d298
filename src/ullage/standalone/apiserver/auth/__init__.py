"""Who is asking, and may they?

users, impersonation                  a request's identity: certificate, bearer token, or nobody; acting as somebody else
tokens, token_requests, credentials   bearer tokens, and those that service accounts are given; the server's own keys
rules, rbac                           one RBAC rule, and whether others cover it; roles and bindings, compiled into decisions
escalation, signing_requests          nobody hands out rights that they do not hold; who may ask for and grant certificates
reviews, bootstrap                    the same questions over the API; what every cluster starts with (policy_tables: the data)
"""
