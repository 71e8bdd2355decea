"""The command line: one file a command. Names are resolved here, and the environment is read here alone."""

import logging
import os
import sys
import traceback

from reticent.errors import ReticentError


def main() -> None:
    """The entry point of `reticent`: a command's error is one sentence on standard error, and its exit code (docs/concepts.md)."""
    os.umask(0o077)  # what a run writes holds partners' letters
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    import click

    from reticent.cli import commands

    try:
        commands.app(standalone_mode=False)
    except ReticentError as error:
        print(f"reticent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        print("reticent: stopped", file=sys.stderr)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("reticent: stopped; `reticent resume` goes on with a run that has a folder", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("RETICENT_TRACE"):
            traceback.print_exc()
        print(f"reticent: {type(error).__name__}: {error} (this is a fault of Reticent's, not yours: RETICENT_TRACE=1 shows where)", file=sys.stderr)
        sys.exit(1)
