"""SHELL: the agent of one node. It starts, probes, drains and stops engine processes, and survives the reconciler.

README.md says what it promises, which files it keeps and how one replica lives.
"""
