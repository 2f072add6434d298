"""`ullage up`: starts the embedded API server as a process of its own, and what runs beside it, and keeps them running.

settings        what was asked for, checked; data_directory: one directory, one owner
process         one run of a process: start, ready, stop; supervisor: starts it, and starts it again
components      what runs beside the API server: webhook, controllers, world; run: puts all together
output          what a person sees meanwhile; kubectl: finds one that is really there; removals: what is taken away meanwhile
"""
