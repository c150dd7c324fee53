"""Tangent spaces, representation functions and derivatives of terms."""

from tangents.calls import Block, Calls
from tangents.derivatives import Pullback, grad, value_and_grad, vjp
from tangents.represent import represent

__all__ = ["Block", "Calls", "Pullback", "grad", "represent", "value_and_grad", "vjp"]
