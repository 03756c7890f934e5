"""The command line: one module a command group; constructs the real collaborators and owns the exit codes.

Command modules import only typer at the top, and what a command needs inside it: `--help` must not load pydantic.
"""
