"""Pods: scheduled, said to run, and brought to their end if they are a Job's."""
