"""Which node and which GPUs a replica gets; shared by the planner and the gate."""
