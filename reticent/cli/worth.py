"""`reticent worth`: what each guest of a finished run adds, from the letters already heard."""

from pathlib import Path
from typing import Annotated

import typer

from reticent import worth as worths
from reticent.cli.app import AsJson, app, grid, say


@app.command()
def worth(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    orders: Annotated[int, typer.Option(min=4, help="Random orders to sample, where there are more than eight guests.")] = worths.ORDERS,
    as_json: AsJson = False,
) -> None:
    """Says what each guest adds: leave-one-out and Shapley values; nothing is sent."""
    found = worths.of_folder(folder.absolute(), orders)
    columns = (f"{found['metric']} without it", "so it adds", "Shapley value", *(["95 % interval"] if found["interval"] else []))
    title = f"{found['metric']} {found['all']:.4f} with all guests, {found['solo']:.4f} of the host alone; {found['fits']} fits, {found['seconds']:.1f} s, nothing sent"
    shown = grid("guest", *columns, title=title)
    for name, share in sorted(found["shapley"].items(), key=lambda item: -item[1]):
        without = found["leave_one_out"][name]
        interval = [f"{found['interval'][name][0]:+.4f} to {found['interval'][name][1]:+.4f}"] if found["interval"] else []
        shown.add_row(name, f"{without:.4f}", f"{found['all'] - without:+.4f}", f"{share:+.4f}", *interval)
    if found["absent"]:
        shown.caption = f"Not heard in this run, and not counted: {', '.join(found['absent'])}."
    say(found, as_json, shown)
