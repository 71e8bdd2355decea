"""The command line: one file a command. Names are resolved here, and the environment is read here alone."""

import importlib
import importlib.util
import logging
import os
import sys
import traceback

from reticent.errors import ReticentError


def main() -> None:
    """The entry point of `reticent`: a command's error is one sentence on standard error, and its exit code (docs/concepts.md)."""
    os.umask(0o077)  # what a run writes holds partners' letters
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    from reticent.cli.app import app

    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    known = asked.isidentifier() and asked not in ("app", "commands") and importlib.util.find_spec(f"reticent.cli.{asked}") is not None
    importlib.import_module(f"reticent.cli.{asked if known else 'commands'}")  # one command's file, not all of them: a guest starts sooner
    try:
        if app(standalone_mode=False) == 130:  # some versions of typer give back this number for Ctrl-C, and raise nothing
            raise KeyboardInterrupt
    except ReticentError as error:
        print(f"reticent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("reticent: stopped; `reticent resume` goes on with a run that has a folder", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if type(error).__name__ == "Abort":  # typer's, or the click it brings: their classes moved between versions
            print("reticent: stopped; `reticent resume` goes on with a run that has a folder", file=sys.stderr)
            sys.exit(130)
        if callable(usage := getattr(error, "show", None)):
            usage()
            sys.exit(getattr(error, "exit_code", 2))
        if os.environ.get("RETICENT_TRACE"):
            traceback.print_exc()
        print(f"reticent: {type(error).__name__}: {error} (this is a fault of Reticent's, not yours: RETICENT_TRACE=1 shows where)", file=sys.stderr)
        sys.exit(1)
