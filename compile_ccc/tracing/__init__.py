"""A Python function and its arguments become a traced program."""
