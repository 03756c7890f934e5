"""What must change: desired and observed in, a decision out. No clock, no randomness, no memory between passes."""
