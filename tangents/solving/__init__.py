"""Solvers with implicit derivatives, and differential equations."""
