"""The HTTPS API for people and tools beside the Kubernetes API: the slices' routes, who may use them, and a page that tells.

endpoint         from a request to a route's answer: who asks, may he, what does he say; answers: every refusal as a Status
routing          which route a path and an action mean. Pure
authorization    bearer token to TokenReview, SubjectAccessReview with user, groups and extra
openapi, page    the routes as an OpenAPI document, and as a page. Pure
run, certificates  the life of the server; its certificate, and the ConfigMap in which clients find what to trust
"""
