"""`ullage up`: starts the embedded API server as a process of its own, and keeps it running.

settings     what was asked for, checked
datadir      one directory, one owner: claims it, or says who holds it
server       the API server's process: start, ready, stop
supervisor   the loop that starts it, and starts it again
narration    what a person sees meanwhile
kubectl      finds a kubectl that is really there
run          puts these together
"""
