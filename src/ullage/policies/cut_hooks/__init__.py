"""Commands that run in pods right before and right after the volumes that they mount are cut.

api, pod_annotations   what is asked for: on a schedule, a group or a snapshot; and by pods themselves
resolution             from pods and claims to runs. Pure
interface, runs        what holds a cut asks for; HookRuns, which are made, joined and left
run, tasks             the kind that says what is run, before it is; commands that are running
"""
