"""What a ledger holds much of, each as one compact string of its status.

sums       what was counted, and whose limits were noticed
pending    what was admitted and is not counted yet
strings    how both are packed: bounded, and refused where they are not what was written
"""
