"""The two tangent spaces of functions (paper 003, figures 3 and 5)."""
