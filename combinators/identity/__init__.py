"""Which terms are one, and which of the Python functions that they hold."""
