"""OpenAPI: the documents from which kubectl explains, validates and merges.

documents   `OpenApi`: which document answers which path; caching
v3, v2      one document in either dialect
proto       the second dialect as protobuf, the only form in which kubectl asks for it
operations  the paths and methods of a resource, in no dialect
schemas     definitions and custom schemas, as the server publishes them
"""
