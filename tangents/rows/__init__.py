"""The table: pullbacks and pushforwards of primitives."""
