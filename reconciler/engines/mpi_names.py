"""Names that `mpi` puts into an environment and the agent's programs read there, which import nothing else of ours."""

from __future__ import annotations

PARTS_VARIABLE = "RECONCILER_MPI"
"""JSON: where the first node's weights are, its address, and where each part waits."""

KEY_VARIABLE = "TRTLLM_MPI_KEY"
"""A declared secret with which the first node signs what it asks of the others. Not RECONCILER_…: those are the agent's
own, and the gate refuses them in `env`."""
