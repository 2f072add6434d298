"""`ullage snapshot`: the commands, what they do (`actions`, `taking`, `restoring`, `waiting`), read and print."""
