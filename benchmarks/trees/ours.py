from benchmarks.trees.by_hand import BY_HAND

LEVELS = SEQUENTIAL = BY_HAND
