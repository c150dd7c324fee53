"""The laws of the combinators: equations between terms."""
