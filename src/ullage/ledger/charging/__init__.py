"""What slices charge with.

registry   one service for all slices of a process; stamps: what an object takes, written on it
raising    another stamp on an object: booked, or refused with the numbers
plans      what an object pays for others, each with its bytes
methods    how what it takes was found, in one word
"""
