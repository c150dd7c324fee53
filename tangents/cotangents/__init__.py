"""Cotangents: sparse inside a pullback, dense at the edge; what pullbacks keep."""
