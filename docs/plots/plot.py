#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
"""Draw one metric of a `bias-bench ab` run as SVG: a dot per sample, a bar per mean.

    plot.py RUN METRIC TITLE [--cells A,B] [--arms A,B] > plot.svg

RUN is the directory of the run, or its samples.jsonl or samples.jsonl.xz. METRIC is a key of
`metrics`; `task.KEY` draws a key of each task of a mix instead, such as task.progress. Of a repeated
block the last attempt counts. In runs of format 1 every sample counts that is not marked void.
"""
import argparse
import json
import lzma
import math
import pathlib
import sys
from html import escape

COLOURS = ["#6b7280", "#0072b2", "#d55e00", "#009e73", "#cc79a7"]
LEFT, WIDTH, LINE, GROUP, TOP = 190, 720, 13, 12, 62


def samples(run):
    path = pathlib.Path(run)
    if path.is_dir():
        path = next(p for p in (path / "samples.jsonl", path / "samples.jsonl.xz") if p.exists())
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt") as lines:
        found = [json.loads(line) for line in lines]
    last = {}
    for s in found:
        block = (s["boot"], s["block"])
        last[block] = max(last.get(block, 0), s.get("attempt", 1))
    for s in found:
        if s["schema"].endswith("/1"):
            counts = s["void"] is None
        else:
            counts = s.get("attempt", 1) == last[s["boot"], s["block"]]
        if counts:
            yield s


def values(sample, metric):
    if not metric.startswith("task."):
        return [sample["metrics"].get(metric)]
    return [task.get(metric[5:]) for task in sample["detail"].get("tasks", [])]


def ticks(low, high):
    step = 10 ** math.floor(math.log10(high - low))
    step = next(s for s in (step / 5, step / 2, step, step * 2) if (high - low) / s <= 8)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 9) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def main():
    args = argparse.ArgumentParser()
    for name in ("run", "metric", "title"):
        args.add_argument(name)
    args.add_argument("--cells", default="")
    args.add_argument("--arms", default="")
    args = args.parse_args()
    data = {}
    for s in samples(args.run):
        kept = [v for v in values(s, args.metric) if v is not None]
        data.setdefault(s["cell"], {}).setdefault(s["arm"], []).extend(kept)
    cells = [c for c in args.cells.split(",") if c] or list(data)
    arms = [a for a in args.arms.split(",") if a] or sorted({a for c in data.values() for a in c})
    flat = [v for c in cells for a in arms for v in data[c].get(a, [])]
    low, high = min(flat), max(flat)
    low, high = low - (high - low) * 0.04, high + (high - low) * 0.04
    x = lambda v: f"{LEFT + (v - low) / (high - low) * (WIDTH - LEFT - 20):.1f}"
    bottom = TOP + len(cells) * (len(arms) * LINE + GROUP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 34}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">{escape(args.title)}</text>',
    ]
    for i, arm in enumerate(arms):
        at = LEFT + i * 130
        out.append(f'<circle cx="{at}" cy="40" r="4" fill="{COLOURS[i]}"/>')
        out.append(f'<text x="{at + 8}" y="44">{escape(arm)}</text>')
    for v in ticks(low, high):
        out.append(f'<path d="M{x(v)} {TOP - 8}V{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{x(v)}" y="{bottom + 16}" text-anchor="middle">{v:g}</text>')
    out.append(f'<text x="10" y="{bottom + 16}">{escape(args.metric)}</text>')
    y = TOP
    for cell in cells:
        out.append(f'<text x="10" y="{y + len(arms) * LINE / 2 + 3:g}">{escape(cell)}</text>')
        for i, arm in enumerate(arms):
            found = sorted(data[cell].get(arm, []))
            out.append(f'<g fill="{COLOURS[i]}" fill-opacity=".45">')
            out += [f'<circle cx="{p}" cy="{y + 5}" r="3"/>' for p in sorted({x(v) for v in found})]
            out.append("</g>")
            if found and args.metric[:5] != "task.":
                mean = x(sum(found) / len(found))
                out.append(f'<path d="M{mean} {y - 1}v12" stroke="{COLOURS[i]}" stroke-width="2"/>')
            y += LINE
        y += GROUP
    sys.stdout.write("\n".join(out) + "\n</svg>\n")


main()
