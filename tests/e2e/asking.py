"""Run the notebook without a published file and with one, and write what it said and defined as JSON."""

import json
import os
import runpy
import sys
from importlib import metadata
from pathlib import Path

import altair as alt
import pyarrow as pa

if __name__ == "__main__":
    notebook, empty, filled, answers = sys.argv[1:]
    os.environ["WME_DATA"] = empty
    try:
        runpy.run_path(notebook, run_name="__main__")
        refusal = None
    except SystemExit as stop:
        refusal = stop.code
    os.environ["WME_DATA"] = filled
    _, names = runpy.run_path(notebook)["app"].run()
    (marimo,) = metadata.entry_points(group="console_scripts", name="marimo")
    opening = marimo.load().commands["edit"].make_context("edit", [notebook])
    told = {
        "refusal": refusal,
        "opened": opening.params["name"],
        "tables": {name: one.to_pylist() for name, one in names.items() if isinstance(one, pa.Table)},
        "plots": {name: one.to_dict() for name, one in names.items() if isinstance(one, alt.Chart)},
        "heavy": sorted({"numpy", "pandas", "polars"} & sys.modules.keys()),
    }
    Path(answers).write_text(json.dumps(told, default=str))
