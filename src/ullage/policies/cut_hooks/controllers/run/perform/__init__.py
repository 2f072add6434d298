"""Runs what a HookRun says, and writes down what came of it."""
