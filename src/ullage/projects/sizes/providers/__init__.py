"""Asks clouds for their flavours, each through the interface that it documents. `contract`: what is asked of each of them.

`registry`: all of them by machine-controller's name. `web`: calls over HTTPS, bounded. One module for each provider.
Nothing that is raised or logged here has a secret in it, and nothing that a provider answers is believed before it is read by
`sizes/answers.py`.
"""
