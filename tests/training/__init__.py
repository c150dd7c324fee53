"""Small training scripts as people write them: each is a function of the derivatives, and gives what each step gave."""
