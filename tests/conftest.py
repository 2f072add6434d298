"""What every test counts on."""

from __future__ import annotations

import signal

# A shell that runs us in the background without job control hands SIGINT down as ignored, and every process that a test starts
# would inherit that: Ctrl-C could not be tried. A handler of our own becomes the default again in our children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
