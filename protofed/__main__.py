"""`python -m protofed COMMAND …`: the same as `protofed COMMAND …`."""

import sys

if __name__ == "__main__":
    try:
        from .cli.main import main

        sys.exit(main())
    except KeyboardInterrupt:  # before anything was imported
        sys.exit(130)
