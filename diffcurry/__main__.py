"""`python -m diffcurry laws [--examples N] [--seed S]`: the table of laws by readings."""

from diffcurry.command import main

raise SystemExit(main())
