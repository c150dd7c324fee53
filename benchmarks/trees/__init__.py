"""A TreeLSTM on syntax trees of real functions, by several means, which all have one model, its weights and its loss."""
