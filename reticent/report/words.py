"""Numbers and results as people say them."""

import datetime
import math
from collections.abc import Mapping
from typing import Any

titles = {
    "auc": "AUC", "accuracy": "accuracy", "rmse": "RMSE", "r2": "R²", "rmse_scaled": "RMSE, scaled", "pr_auc": "PR-AUC", "ks": "KS", "log_loss": "log loss",
    "calibration_error": "calibration error",
}  # fmt: skip
meanings = {
    "auc": "the chance that someone with the outcome scores above someone without it",
    "accuracy": "the share of test rows told rightly",
    "rmse": "the typical error, in the label's own units",
    "r2": "the share of the label's variance that is explained",
    "rmse_scaled": "RMSE over the range of the training labels",
    "pr_auc": "average precision over all recalls",
    "ks": "the largest distance between the scores of the two classes (Kolmogorov and Smirnov)",
    "log_loss": "the mean surprise, in nats",
    "calibration_error": "how far the chances said lie from what happened, on average",
}
falls = {"rmse", "rmse_scaled", "log_loss", "calibration_error"}  # less is better
seats = {
    "public": "whoever is shown the model or what it predicts",
    "host": "the host, from what the guests send it",
    "guests": "a guest, from what the host sends it",
}


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 999.5 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def many(count: float) -> str:
    return f"{count:,.0f}"


def figure(value: object, digits: int = 3) -> str:
    if not isinstance(value, int | float):
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.{digits}f}".replace("-", "−")


def clock(at: object) -> str:
    if not isinstance(at, int | float):
        return "–"
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%-d %B %Y, %H:%M UTC")


def epsilon(value: object) -> str:
    return "∞" if value == "inf" else "–" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def lead(metrics: Mapping[str, Any]) -> str:  # Any: JSON
    """The metric that the result is told by."""
    return next((name for name in ("auc", "accuracy", "r2", "rmse") if name in metrics), "")


def columns(result: Mapping[str, Any]) -> list[str]:  # Any: JSON
    return [name for name in ("auc", "accuracy", "rmse", "r2") if name in result["metrics"]]


def further(result: Mapping[str, Any]) -> list[str]:  # Any: JSON
    return [name for name in ("pr_auc", "ks", "log_loss", "calibration_error", "rmse_scaled") if name in result["metrics"]]


def interval(one: Mapping[str, Any], name: str) -> str:  # Any: JSON
    """`0.769 to 0.799` for a single run's AUC, `± 0.003` over several runs."""
    spread = one.get("spread", {}).get(name)
    if isinstance(spread, int | float) and math.isfinite(spread):
        return f"± {spread:.3f}"
    found = one["metrics"].get(f"{name}_interval")
    return f"{found[0]:.3f} to {found[1]:.3f}" if found else ""


def crossed(one: Mapping[str, Any]) -> int:  # Any: JSON
    """Bytes of the fit, both ways."""
    return int(one["bytes"]["fit"]["up"] + one["bytes"]["fit"]["down"])


def verdict(result: Mapping[str, Any]) -> str:  # Any: JSON
    """What came out, in one sentence."""
    name, metrics, others = result["algorithm"], result["metrics"], result.get("compare", {})
    main, host, guests = lead(metrics), result["parties"][0], result["parties"][1:]
    rounds, total, rows = result["rounds"]["fit"], crossed(result), result["rows"]["test"]
    if rounds:
        opening = f"In {'one round' if rounds == 1 else f'{rounds:,} rounds'} and {size(total)}, {listed([host, *guests])} learnt"
    else:
        opening = f"With all columns in one place, {host} learnt" if result.get("simulated") else f"Alone, {host} learnt"
    if not main:
        return f"{opening} a model; there was no test row to measure it on."
    seeds = result.get("runs")
    said = f"{opening} a model with {article(main)} {titles[main]} of {figure(metrics[main])}"
    extent = interval(result, main)
    said += f" ({extent} over {len(seeds)} runs)" if seeds and extent else f" (95 % interval {extent})" if extent else ""
    said += f" on {many(rows)} row{'' if rows == 1 else 's'} it had not seen"
    parts = [
        part
        for part in (
            beside(metrics, others, main, "solo", f"than {host} reaches alone"),
            beside(metrics, others, main, "combined", "than all columns in one place would give"),
        )
        if part
    ]
    rival = next((other for key, other in others.items() if crossed(other) > 0 and key != name), None)
    if rival and total:
        times = crossed(rival) / total
        parts.append(
            f"{rival['algorithm']} sent {times:,.0f} times as much to reach {figure(rival['metrics'].get(main))}"
            if times >= 1.5
            else f"{rival['algorithm']} reached {figure(rival['metrics'].get(main))} with {size(crossed(rival))}"
        )
    return said + (": " + "; ".join(parts) if parts else "") + "."


def beside(metrics: Mapping[str, Any], others: Mapping[str, Any], main: str, other: str, rest: str) -> str:  # Any: JSON
    if other not in others or main not in others[other]["metrics"]:
        return ""
    gap = metrics[main] - others[other]["metrics"][main]
    if abs(gap) < 0.0005:
        return f"the same {rest.replace('than', 'as', 1)}"
    return f"{figure(abs(gap))} {'more' if gap > 0 else 'less'} {rest}"


def article(metric: str) -> str:
    return "an" if titles[metric][0].lower() in "aeiour" else "a"


def listed(names: list[str]) -> str:
    if len(names) > 6:
        return f"{names[0]} and {len(names) - 1} guests"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nobody"


def describe(name: str, one: Mapping[str, Any]) -> str:  # Any: JSON
    """What a method is, under its name in the table."""
    model = one.get("model", {}).get("name", "")
    if one.get("simulated"):
        return f"all columns in one place, which nobody may do{', ' + model if model else ''}"
    if not one["rounds"]["fit"]:
        return f"the host alone{', ' + model if model else ''}"
    encoder = one.get("config", {}).get("encoder")
    return ", ".join(part for part in (f"{encoder} at the guests" if encoder else "", f"{model} at the host" if model else "") if part)


def label(one: Mapping[str, Any]) -> str:  # Any: JSON
    """One run of several, by its folder or its seed."""
    return str(one["out"]).rstrip("/").rpartition("/")[2] if "out" in one else f"seed {one['seed']}"
