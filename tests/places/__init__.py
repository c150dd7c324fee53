"""Where programs keep what they read."""

from tests.places import containers, functions, objects  # which fill the table
from tests.places.table import PLACES, Holder, module

__all__ = ["PLACES", "Holder", "containers", "functions", "module", "objects"]
