"""Every command, registered by importing its file."""

from reticent.cli import audit, bench, check, data, demo, host, init, join, predict, price, report, resume, run, worth
from reticent.cli.app import app

__all__ = ["app", "audit", "bench", "check", "data", "demo", "host", "init", "join", "predict", "price", "report", "resume", "run", "worth"]
