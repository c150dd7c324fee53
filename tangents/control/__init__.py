"""Pullbacks of loops, choices, checkpoints, named calls, equations, and rules of one's own."""
