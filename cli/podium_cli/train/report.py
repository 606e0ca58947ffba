import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from podium_cli.demo.report import GRID, STYLE, svg
from podium_cli.train.progress import Metrics

CALLS = "calls "
ADHERENCE = {
    "cost": "adherence cost ",
    "latency (s)": "adherence latency ",
    "share of calls to preferred tools": "adherence ",
}


def write_report_page(path: Path, steps: Sequence[Metrics]) -> None:
    parts = [f"<h2>{html.escape(title)}</h2>\n{plot}" for title, plot in report_plots(steps)]
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Training</title>\n'
        "<style>body {font-family: sans-serif; max-width: 44rem; margin: 2rem auto}</style>\n"
        f"<h1>Training, {len(steps)} steps</h1>\n{body}\n</html>\n",
        encoding="utf-8",
    )


def report_plots(steps: Sequence[Metrics]) -> list[tuple[str, str]]:
    """Title and SVG of every plot; a figure that a run did not write is left out."""
    tools = sorted({name for step in steps for name in step if name.startswith(CALLS)})
    with mpl.rc_context(STYLE):
        return [
            ("Learning", _panels(steps, {"reward_mean": "reward", "loss": "loss"})),
            (
                "Reward by component",
                _panels(
                    steps,
                    {
                        "reward_solved": "solved (share)",
                        "cost_mean": "cost",
                        "latency_mean_s": "latency (s)",
                    },
                ),
            ),
            ("Cost against accuracy", _cost_against_accuracy(steps)),
            *_adherence(steps),
            (
                "Tool calls per episode",
                _curves(steps, {name: name.removeprefix(CALLS) for name in tools}),
            ),
            ("Drift, nats a token", _curves(steps, {"drift_mean": "mean", "drift_max": "largest"})),
        ]


def _adherence(steps: Sequence[Metrics]) -> list[tuple[str, str]]:
    """A curve for what the preferences weigh more; nothing for a run that did not write it."""
    names = sorted({name for step in steps for name in step})
    plots = []
    for title, prefix in ADHERENCE.items():
        labels = {name: name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        names = [name for name in names if name not in labels]
        if labels:
            plots.append((f"Preference adherence: {title}", _curves(steps, labels)))
    return plots


def _curves(steps: Sequence[Metrics], names: Mapping[str, str]) -> str:
    figure, axes = _canvas()
    for name, label in names.items():
        points = [(step["step"], step[name]) for step in steps if name in step]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, marker=".")
    axes.set_xlabel("step")
    return svg(figure, axes, legend=bool(axes.lines))


def _panels(steps: Sequence[Metrics], names: Mapping[str, str]) -> str:
    """One below the other: figures of different units have no scale in common."""
    figure = Figure(figsize=(6.6, 1.6 * len(names) + 0.4), layout="constrained")
    rows = figure.subplots(len(names), sharex=True)
    for axes, (name, label) in zip(rows, names.items(), strict=True):
        axes.grid(color=GRID)
        axes.set_ylabel(label)
        points = [(step["step"], step[name]) for step in steps if name in step]
        if points:
            axes.plot(*zip(*points, strict=True), marker=".")
    rows[-1].set_xlabel("step")
    return svg(figure, rows[-1])


def _cost_against_accuracy(steps: Sequence[Metrics]) -> str:
    figure, axes = _canvas()
    found = [step for step in steps if "cost_mean" in step and "reward_solved" in step]
    if found:
        costs, solved = zip(*((s["cost_mean"], s["reward_solved"]) for s in found), strict=True)
        dots = axes.scatter(costs, solved, c=[step["step"] for step in found], cmap="viridis")
        figure.colorbar(dots, ax=axes, label="step")
    axes.set_xlabel("mean cost of an episode")
    axes.set_ylabel("solved (share)")
    return svg(figure, axes)


def _canvas() -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.6, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(color=GRID)
    return figure, axes
