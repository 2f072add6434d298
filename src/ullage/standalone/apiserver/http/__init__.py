"""From a connection to a handler: sockets, bounds on heads and bodies, identity, authorization, routes."""
