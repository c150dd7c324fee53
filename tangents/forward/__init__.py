"""Forward mode: terms on dual numbers, one case for each combinator."""
