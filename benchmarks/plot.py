"""The rows of models as a picture.  It needs matplotlib, of the extra `bench`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import Row

STAGES = {"trace": "trace_time_ratio", "lower": "lower_time_ratio", "run": "run_time_ratio", "memory": "memory_ratio"}


def plot(rows: list[Row], file: Path) -> None:
    """Writes a picture of the ratios: one group of dots a model, on a logarithmic axis with JAX at 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 0.8 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))[::-1]
    for (label, key), marker in zip(STAGES.items(), "os^D", strict=True):
        known = [(row[key], place) for row, place in zip(rows, places, strict=True) if row[key]]
        axes.scatter([x for x, _ in known], [y for _, y in known], marker=marker, label=label, alpha=0.8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.25, 0.5, 1, 2, 4]
    axes.set_xticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.set_yticks(places, [row["name"] for row in rows])
    axes.grid(alpha=0.3)
    axes.set_xlabel("ours / JAX's; less is better")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
