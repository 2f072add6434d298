"""From a connection to a handler.

connections   TLS and HTTP/1.1: deadlines, sizes and numbers of what is not complete
intake        which bodies are read, how many at once, how fast
app           the ASGI application: every failure becomes a Status here
router        identity, authorization, body, and then the handler; which paths a kind has
"""
