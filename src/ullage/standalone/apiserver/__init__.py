"""A Kubernetes-compatible API server over SQLite. A request goes down through http, handlers, admission and kinds to storage.

It imports nothing of Ullage but the bottom row: the rest of the product meets it over the wire, as it would
meet kube-apiserver. Beside the packages: `server` puts all parts together, `status` has every answer that is not an object,
`objects` what every layer may ask of one, `go_text` values as Go prints them, `settings` what it is told at start.
Objects are plain dicts on the way in and JSON bytes at rest: an object in its stored version is sent as it is stored.
"""
