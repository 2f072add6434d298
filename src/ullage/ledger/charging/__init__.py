"""What slices charge with.

registry   one service for all slices of a process; stamps: what an object takes, written on it
"""
