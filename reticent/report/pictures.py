"""The report's pictures: matplotlib's SVG, made to sit in a page: its colours are the page's, its letters the page's font."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from reticent.learn import metrics
from reticent.report import words
from reticent.report.reading import Facts, Json

WIDTH = 4.72  # inches: 340 points, the width of a telephone
# stand-ins that matplotlib understands, each replaced by a variable of the page, so that one picture serves by day and by night
INK, SOFT, RULE, PAPER = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04"
COLOURS = ("#0a0b05", "#0a0b06", "#0a0b07", "#0a0b08")
variables = {INK: "ink", SOFT: "soft", RULE: "rule", PAPER: "paper", **{colour: f"c{i}" for i, colour in enumerate(COLOURS)}}
style: Any = {  # Any: matplotlib types its keys one by one, and differently from release to release
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 10, "axes.edgecolor": RULE, "axes.labelcolor": SOFT, "axes.linewidth": 0.8, "text.color": INK,
    "xtick.color": RULE, "ytick.color": RULE, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT, "axes.spines.top": False, "axes.spines.right": False,
    "xtick.major.width": 0.8, "ytick.major.width": 0.8, "legend.frameon": False, "legend.fontsize": 10, "axes.titlesize": 10, "lines.linewidth": 1.6,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip
DASHES: Any = ("-", (0, (4, 2)), (0, (1, 1.5)))  # Any: as above
FEW = 10  # a group of fewer test rows says nothing, or too much of somebody
loss_said = re.compile(r"(epoch|batch) \d+ of \d+, loss ([0-9.eE+-]+)")
Curve = NDArray[np.float64]


@dataclass(frozen=True)
class Picture:
    title: str
    svg: str
    said: str  # for those who cannot see it
    caption: str


def all_of(facts: Facts) -> list[Picture]:
    """Every picture this run has the material for, in the order of the page."""
    made: list[Picture] = []
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that matplotlib's own font lacks: the page's has them
        for picture in (quality, conversation, curves, guests_curves):
            found = picture(facts)
            if found is not None:
                made.append(found)
        made += outcomes(facts)
    return made


def canvas(height: float = 2.9) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def svg(figure: Figure, salt: str, said: str) -> str:
    """The drawing alone: no prologue, no metadata, no address of anything; names of its parts are its own."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": f"reticent {salt}"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' (?:xmlns(?::xlink)?|version)="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'^<svg[^>]*viewBox="([^"]*)"[^>]*>', lambda m: f'<svg viewBox="{m[1]}" role="img" aria-label="{escape(said)}">', text, count=1)
    text = re.sub(r"font(?:-family)?: ?([0-9.]+px)? ?'[^;\"]*", lambda m: f"font-size: {m[1]}" if m[1] else "", text)
    for colour, variable in variables.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def colours(names: Sequence[str], main: str) -> dict[str, str]:
    """The run's own colour first; solo and combined, between which it lies, are grey."""
    rest = [name for name in names if name not in (main, "solo", "combined")]
    return {**{name: COLOURS[1 + i % 3] for i, name in enumerate(rest)}, "solo": SOFT, "combined": SOFT, main: COLOURS[0]}


def dashes(name: str) -> Any:  # Any: as DASHES
    """Solo and combined share a colour, and differ in this."""
    return DASHES[{"solo": 1, "combined": 2}.get(name, 0)]


def quality(facts: Facts) -> Picture | None:
    """Quality against bytes: a point a method, a line for those that sent nothing."""
    lead = words.lead(facts.result["metrics"])
    rows = {name: one for name, one in facts.methods.items() if lead in one["metrics"]}
    if not lead or not rows:
        return None
    figure, axes = canvas(3.1)
    shade = colours(list(rows), facts.name)
    speaking = {name: words.crossed(one) for name, one in rows.items() if words.crossed(one)}
    axes.set_xscale("log")
    low, high = (min(speaking.values()), max(speaking.values())) if speaking else (1e4, 1e6)
    left, right = low / 40, max(high * 8, low * 60)  # room for the lines' names on the left
    axes.set_xlim(left, right)
    values = [one["metrics"][lead] for one in rows.values()]
    ends = [end for one in rows.values() for end in reach(one, lead)]
    top, bottom = max([*values, *ends]), min([*values, *ends])
    room = max(top - bottom, 1e-3)
    axes.set_ylim(bottom - 0.16 * room, top + 0.14 * room)
    for name, one in rows.items():
        value = one["metrics"][lead]
        if name not in speaking:
            axes.axhline(value, color=shade[name], linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(f"{name} {words.figure(value)}, 0 bytes", (left, value), (3, 3), textcoords="offset points", color=SOFT, fontsize=9.5)
            continue
        at = speaking[name]
        for_interval = reach(one, lead)
        if for_interval:
            axes.vlines(at, for_interval[0], for_interval[1], color=shade[name], linewidth=1.1)
        axes.plot([at], [value], "o", color=shade[name], markersize=7 if name == facts.name else 5.5, markeredgecolor=PAPER)
        lower = min([value, *for_interval])
        axes.annotate(
            f"{name} {words.figure(value)}\n{words.size(at)}", (at, lower), (0, -4), textcoords="offset points", ha="center", va="top", color=INK, linespacing=1.35, fontsize=10,
            fontweight="bold" if name == facts.name else "normal",
        )  # fmt: skip
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.size(value)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("bytes to learn, both ways (each step ten times as many)")
    axes.set_title(words.titles[lead], loc="left", color=SOFT)
    told = "; ".join(f"{name} {words.titles[lead]} {words.figure(one['metrics'][lead])} with {words.size(words.crossed(one))}" for name, one in rows.items())
    less = " Less is better." if lead in words.falls else ""
    spread = (
        " Bars: one standard deviation over the runs."
        if facts.result.get("runs")
        else " Bars: 95 % intervals."
        if any(reach(one, lead) for one in rows.values())
        else ""
    )
    none = " Dashed: methods that send nothing, and so have no place on the axis." if len(speaking) < len(rows) else ""
    return Picture("Quality against bytes", svg(figure, "quality", told), told, f"Both ways, headers included, prediction not counted.{spread}{none}{less}")


def reach(one: Json, lead: str) -> list[float]:
    """The ends of a method's interval, or of one deviation; nothing where neither is known."""
    spread = one.get("spread", {}).get(lead)
    if isinstance(spread, int | float) and np.isfinite(spread):
        return [one["metrics"][lead] - spread, one["metrics"][lead] + spread]
    return list(one["metrics"].get(f"{lead}_interval", [])) if not one.get("runs") else []


def conversation(facts: Facts) -> Picture | None:
    """Who said what: for each guest what it heard to the left, what it said to the right, by verb."""
    guests, verbs, sums = said_by(facts.lines)
    if not guests:
        return None
    shown = guests[:12]
    figure, axes = canvas(0.85 + 0.42 * len(shown))
    shade = {verb: COLOURS[i % len(COLOURS)] for i, verb in enumerate(verbs)}
    widest = max(sum(sums.get((guest, way, verb), 0) for verb in verbs) for guest in shown for way in ("up", "down"))
    for row, guest in enumerate(shown):
        for way, sign in (("down", -1), ("up", 1)):
            at = 0.0
            for verb in verbs:
                size = sums.get((guest, way, verb), 0)
                if size:
                    axes.barh(
                        row, sign * size, left=sign * at, height=0.5, color=shade[verb], alpha=1.0 if way == "up" else 0.55, edgecolor=PAPER, linewidth=0.6
                    )
                    at += size
            axes.annotate(
                words.size(at), (sign * at, row), (4 * sign, 0), textcoords="offset points", ha="left" if sign > 0 else "right", va="center", fontsize=9.5
            )
    heard = max(sum(sums.get((guest, "down", verb), 0) for verb in verbs) for guest in shown)
    axes.set_xlim(-heard - 0.26 * widest, 1.26 * widest)
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    host = facts.first["parties"][0]
    axes.annotate(
        f"◂ heard from {host}", (0, 1.0), (-6, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha="right", color=SOFT, fontsize=9.5
    )
    axes.annotate(f"said to {host} ▸", (0, 1.0), (6, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha="left", color=SOFT, fontsize=9.5)
    big = [verb for verb in verbs if sum(sums.get((guest, way, verb), 0) for guest in guests for way in ("up", "down")) > 0.02 * widest]
    handles = [axes.barh([0], [0], color=shade[verb], label=verb) for verb in big]
    figure.legend(handles=handles, loc="outside lower left", ncols=min(4, len(handles)), handlelength=0.9, handletextpad=0.5, columnspacing=1.2)
    told = "; ".join(
        f"{guest} said {words.size(sum(s for (g, w, _), s in sums.items() if (g, w) == (guest, 'up')))} to {host} and heard {words.size(sum(s for (g, w, _), s in sums.items() if (g, w) == (guest, 'down')))}"
        for guest in guests
    )
    more = f" The first 12 of {len(guests)} guests." if len(guests) > 12 else ""
    quiet = [verb for verb in verbs if verb not in big]
    small = f" Too small to see: {', '.join(quiet)}." if quiet else ""
    return Picture(
        "Who said what",
        svg(figure, "conversation", told),
        told,
        f"All letters of the run, prediction included, by verb. Guests never speak with one another.{small}{more}",
    )


def said_by(lines: Sequence[Json]) -> tuple[list[str], list[str], dict[tuple[str, str, str], int]]:
    """Guests and verbs in the order they appear, and bytes by guest, way and verb."""
    sums: dict[tuple[str, str, str], int] = {}
    for line in lines:
        key = (line["from"] if line["way"] == "up" else line["to"], line["way"], line["verb"])
        sums[key] = sums.get(key, 0) + int(line["bytes"])
    verbs = list(dict.fromkeys(verb for _, _, verb in sums))
    verbs.sort(key=lambda verb: -sum(size for (_, _, v), size in sums.items() if v == verb))
    return list(dict.fromkeys(guest for guest, _, _ in sums)), verbs, sums


def losses(told: Sequence[Json], party: str, epochs: float | None) -> Iterator[tuple[Curve, Curve]]:
    """A party's trainings, one after another: epochs, and the loss in each. A trial's curve ends where the next begins."""
    at: list[float] = []
    loss: list[float] = []
    for line in told:
        found = loss_said.fullmatch(str(line.get("what"))) if line.get("party") == party else None
        if found is None:
            continue
        done = float(line["done"])
        if found[1] == "batch":
            done = done / max(1, line["of"]) * (epochs or 1.0)
        if at and done <= at[-1]:
            yield np.array(at), np.array(loss)
            at, loss = [], []
        at.append(done)
        loss.append(float(found[2]))
    if at:
        yield np.array(at), np.array(loss)


def smooth(x: Curve, width: int = 15) -> Curve:
    """A running mean: single batches jump about."""
    if len(x) < 4 * width:
        return x
    padded = np.concatenate([np.full(width // 2, x[0]), x, np.full(width // 2, x[-1])])
    return np.convolve(padded, np.ones(width) / width, "valid")


def curves(facts: Facts) -> Picture | None:
    """The host's loss as it trains, the method and its baselines."""
    host = facts.first["parties"][0]
    every = methods_of(facts)
    trainings = {name: list(losses(told, host, every[name].get("config", {}).get("epochs"))) for name, told in facts.progress.items()}
    trainings = {name: found for name, found in trainings.items() if found and max(len(x) for x, _ in found) > 1}
    if not trainings:
        return None
    figure, axes = canvas()
    shade = colours(list(trainings), facts.name)
    for name, found in trainings.items():
        for number, (x, y) in enumerate(found):
            last = number == len(found) - 1
            axes.plot(
                x,
                smooth(y),
                color=shade[name],
                linestyle=dashes(name),
                alpha=1.0 if last else 0.35,
                linewidth=2.0 if name == facts.name and last else 1.3,
                label=name if last else None,
            )
    axes.set_xlabel("passes over the training rows")
    axes.set_title("training loss", loc="left", color=SOFT)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.legend(loc="upper right", handlelength=1.8)
    told = "; ".join(f"{name} from {y[0]:.3f} to {y[-1]:.3f}" for name, found in trainings.items() for _, y in found[-1:])
    pale = " Pale: trials on a part of the rows." if any(len(found) > 1 for found in trainings.values()) else ""
    tried = chosen(every, trainings)
    return Picture(f"{host} trains", svg(figure, "host", told), told, f"Nets only; boosted trees and linear models are fitted in one go.{pale}{tried}")


def chosen(every: Mapping[str, Json], trainings: Mapping[str, object]) -> str:
    said = [f"{name} chose {one['model']['name']}" for name, one in every.items() if one.get("model", {}).get("tried")]
    return f" By validation {', '.join(said)}." if said and trainings else ""


def guests_curves(facts: Facts) -> Picture | None:
    """The losses of guests that train something of their own."""
    guests = list(facts.first["parties"][1:])
    told_here = facts.progress.get(facts.name, [])
    found = {name: list(losses(told_here, name, facts.first.get("config", {}).get("epochs"))) for name in guests}
    found = {name: trainings for name, trainings in found.items() if trainings and len(trainings[-1][0]) > 1}
    if not found:
        return None
    figure, axes = canvas()
    for number, (name, trainings) in enumerate(found.items()):
        x, y = trainings[-1]
        axes.plot(x, smooth(y), color=COLOURS[number % len(COLOURS)], linestyle=DASHES[number // len(COLOURS) % 3], label=name)
    axes.set_xlabel("passes over the training rows")
    axes.set_title("training loss", loc="left", color=SOFT)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.legend(loc="upper right", handlelength=1.8, ncols=1 + len(found) // 5)
    told = "; ".join(f"{name} from {trainings[-1][1][0]:.3f} to {trainings[-1][1][-1]:.3f}" for name, trainings in found.items())
    return Picture(
        "The guests train", svg(figure, "guests", told), told, "Each on its own columns, without labels; losses of different guests are of different columns."
    )


def methods_of(facts: Facts) -> dict[str, Json]:
    return {facts.name: facts.first, **facts.first.get("compare", {})}


def outcomes(facts: Facts) -> list[Picture]:
    """How the scores stand to what happened."""
    made: list[Picture] = []
    table = facts.first["metrics"].get("calibration")
    y, kind = (None, "") if facts.labels is None or facts.task is None else (facts.labels.numpy(), facts.task.kind)
    scores = {name: z.numpy().astype(np.float64) for name, z in facts.scores.items() if y is not None and len(z) == len(y)}
    if y is not None and kind == "binary" and 0 < y.sum() < len(y) and facts.name in scores:
        made.append(roc(scores, y > 0.5, facts.name))
    if table:
        made.append(calibration(table, kind or ("binary" if facts.first["task"] == "classification" and "ks" in facts.first["metrics"] else "multiclass")))
    if y is not None and kind == "binary" and facts.name in scores:
        made.append(distribution(scores[facts.name], y > 0.5))
    if y is not None and kind == "regression" and facts.name in scores:
        made.append(predicted(scores[facts.name], y.astype(np.float64)))
    return made


def roc(scores: Mapping[str, Curve], y: NDArray[np.bool_], main: str) -> Picture:
    figure, axes = canvas(3.6)
    shade = colours(list(scores), main)
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1)
    grid = np.linspace(0, 1, 161)
    areas = {name: metrics.auc(z, y) for name, z in scores.items()}
    for name in sorted(scores, key=lambda name: name == main):
        true, false = metrics.steps(scores[name], y)
        across = np.concatenate([[0.0], false / false[-1]])
        up = np.concatenate([[0.0], true / true[-1]])
        axes.plot(
            grid,
            np.interp(grid, across, up),
            color=shade[name],
            linestyle=dashes(name),
            linewidth=2.0 if name == main else 1.2,
            label=f"{name} {areas[name]:.3f}",
        )
    axes.set_aspect("equal", anchor="W")
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], xlabel="false alarms, share of those without")
    axes.set_title("found, share of those with the outcome", loc="left", color=SOFT)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="lower right", handlelength=1.6, fontsize=9.5)
    told = "; ".join(f"{name} has an area of {area:.3f} under its curve" for name, area in areas.items())
    return Picture(
        "Found and falsely found",
        svg(figure, "roc", told),
        told,
        "ROC on the test rows: what each threshold finds, and at what price in false alarms; the figures are areas (AUC).",
    )


def calibration(table: Sequence[Mapping[str, Any]], kind: str) -> Picture:  # Any: JSON
    table = [bin for bin in table if bin["rows"] >= FEW] or table
    figure, axes = canvas(3.6)
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1)
    rows = np.array([b["rows"] for b in table], dtype=np.float64)
    x, seen = np.array([b["predicted"] for b in table]), np.array([b["observed"] for b in table])
    margin = 1.96 * np.sqrt(np.maximum(seen * (1 - seen), 1e-9) / rows)
    axes.vlines(x, np.clip(seen - margin, 0, 1), np.clip(seen + margin, 0, 1), color=COLOURS[0], linewidth=1.1)
    axes.scatter(x, seen, s=14 + 90 * np.sqrt(rows / rows.max()), color=COLOURS[0], edgecolor=PAPER, linewidth=0.8, zorder=3)
    axes.set_aspect("equal", anchor="W")
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        xticks=[0, 0.5, 1],
        yticks=[0, 0.5, 1],
        xlabel="chance said" if kind == "binary" else "how sure of the class said",
    )
    axes.set_title("how often it happened" if kind == "binary" else "how often that was right", loc="left", color=SOFT)
    told = "; ".join(f"said {a:.2f}, seen {b:.2f}, {words.many(n)} rows" for a, b, n in zip(x, seen, rows))
    return Picture(
        "Calibration",
        svg(figure, "calibration", told),
        told,
        f"On the line, chances can be taken at their word. Tenths of equal width, larger where more test rows lie, left out below {FEW}; bars: 95 %.",
    )


def distribution(z: Curve, y: NDArray[np.bool_]) -> Picture:
    figure, axes = canvas()
    chance = metrics.sigmoid(z)
    edges = np.linspace(0, 1, 41)
    parts = ((~y, COLOURS[0], "without the outcome"), (y, COLOURS[1], "with it"))
    for rows, colour, name in parts:
        if rows.any():
            share = np.histogram(chance[rows], edges)[0] / rows.sum()
            axes.stairs(share, edges, color=colour, linewidth=1.5, label=f"{name} ({words.many(rows.sum())})")
            axes.stairs(share, edges, color=colour, alpha=0.16, fill=True)
    axes.set(xlim=(0, 1), xlabel="chance said")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_title("share of the class", loc="left", color=SOFT)
    axes.legend(loc="upper right", handlelength=1.2)
    told = "; ".join(f"{name}: median {np.median(chance[rows]):.2f}" for rows, _, name in parts if rows.any())
    return Picture("Scores of the two classes", svg(figure, "scores", told), told, "The less the two overlap, the better they are told apart.")


def predicted(z: Curve, y: Curve) -> Picture:
    """Predicted against true in groups of rows, never row by row: a point would be somebody's label."""
    figure, axes = canvas(3.6)
    groups = np.array_split(np.argsort(z, kind="stable"), int(np.clip(len(z) // 20, 1, 24)))
    x = np.array([z[g].mean() for g in groups])
    low, middle, high = (np.array([np.quantile(y[g], q) for g in groups]) for q in (0.1, 0.5, 0.9))
    ends = [float(min(x.min(), low.min())), float(max(x.max(), high.max()))]
    axes.plot(ends, ends, color=RULE, linewidth=1)
    axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.16, linewidth=0)
    axes.plot(x, middle, color=COLOURS[0], marker="o", markersize=4, markeredgecolor=PAPER)
    axes.set_xlabel("predicted")
    axes.set_title("true", loc="left", color=SOFT)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    told = f"{len(groups)} groups of test rows, predicted from {x[0]:.3g} to {x[-1]:.3g}; their true medians go from {middle[0]:.3g} to {middle[-1]:.3g}"
    return Picture(
        "Predicted and true",
        svg(figure, "predicted", told),
        told,
        f"Test rows in {len(groups)} groups of alike predictions: median of the truth, and the middle 80 %. On the line, they agree.",
    )
