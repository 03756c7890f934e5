"""SHELL: the loop. Load an aim, observe, plan, send: once to look, until settled for `apply`, for ever for `run`.

Collaborators (the fleet, the reporter) are arguments; only `cli` constructs real ones.
"""
