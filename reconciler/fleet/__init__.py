"""SHELL: how a reconciler reaches nodes: observe them all, claim them, send each its whole assignment.

The agent on the other side shares nothing with this package but `domain` (the wire types).
"""
