"""GitOps for LLM serving on plain GPU nodes.

`reconciler/README.md` holds the words, the layers and the life of one change.
"""

__version__ = "0.1.0"
