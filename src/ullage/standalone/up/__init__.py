"""`ullage up`: starts the embedded API server as a process of its own, and what runs beside it, and keeps them running.

settings     what was asked for, checked
datadir      one directory, one owner: claims it, or says who holds it
server       the API server's process: start, ready, stop
supervisor   the loop that starts a process, and starts it again
fleet        what runs beside the server: webhook, controllers, world
narration    what a person sees meanwhile
kubectl      finds a kubectl that is really there
run          puts these together
"""
