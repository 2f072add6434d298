"""Has the hooks of a snapshot run, then has it cut, then lets go of them."""
