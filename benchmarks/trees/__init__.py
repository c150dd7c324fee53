"""A TreeLSTM on syntax trees of real functions: one model, its weights and its loss, by several means."""
