"""VALUES: frozen types that every other package shares, and the tables they are read against.

Nothing here does I/O, reads a clock or knows an engine.
Pydantic models are for what crosses a boundary (YAML, wire, JSON output); slotted dataclasses for what stays inside.
"""
