"""What loops work out at once, before them or from the rows of all steps after them; and what a step keeps for that."""
