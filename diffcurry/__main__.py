"""`python -m diffcurry laws`, the table of laws by readings; `python -m diffcurry primitives`, that of primitives."""

from diffcurry.command import main

raise SystemExit(main())
