"""DECISIONS: what `reconciler fit` shows: every way to run a model that is worth looking at, each judged by itself.

A package of its own, so that the gate, which looks for rules in every module beside it, does not load the report's
types.
"""
