"""What is done for each verb.

reads, lists, watches          get, list, watch
edits                          create, update, patch, apply: what the body means
writes                         the one way into the store for all of these (calls: its terms; changes: its pure rules)
kind_rules, endpoints          what differs between kinds; what of an object each endpoint may write
deletes, subresources, scale   delete and deletecollection; scale, tokens, evictions, bindings
"""
