"""How a cluster is reached and as whom; typed objects in and out, one HTTP call each.

config, kubeconfig, credentials, exec_plugin, proxy         where and as whom
transport, connection, stream                               one call, with retries; watches line by line
client, reader, codec, interface                            typed objects; small protocols for those who need a part of it
conditional                                                 changes an object on condition that it is the one that was read
"""
