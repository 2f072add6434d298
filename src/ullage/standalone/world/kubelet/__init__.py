"""What a kubelet serves, as far as `kubectl exec` and hooks need it: commands in containers that are not run.

scripts   a command line as steps, joined by `&&` and `;`. Pure
files     reads and writes files of a volume without ever leaving it
shell     performs the steps: true, false, echo, sleep, sync, cat, touch, tee, fsfreeze
server    the HTTPS endpoint that the API server alone may use
"""
