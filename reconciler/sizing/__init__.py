"""Arithmetic over shapes: reading them, what an engine refuses at a width, and the length a model was trained for."""
