"""Connections that become WebSockets, and commands in containers over them."""
