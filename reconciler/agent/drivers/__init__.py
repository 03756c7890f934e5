"""SHELL: ways to run engine processes; `process` is the default."""
