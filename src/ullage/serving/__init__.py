"""What our HTTPS servers have in common: the webhook (`admission`) and the API (`rest`).

server         TLS and sockets: a certificate that changes under open connections, the drain, the stop
connections    numbers and deadlines of connections, for ports that people reach
certificates   the rotation as a pure state machine; rotation: carries it out on the Secret that all replicas share
client_names   whose certificate a client has shown
health         what every port says of its health, and what it measures
bodies         how bodies are read: with a size, a time and a sum
"""
