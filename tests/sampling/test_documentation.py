"""What docs/sampling.md shows runs."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from constrain.sampling.params import SamplingParams

PAGE = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text()


def test_the_code_of_the_page_runs_from_top_to_bottom() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/sampling.md", "exec"), names)
    assert len(blocks) == 3 and len(names["output"]) == 2


def test_the_page_names_every_field() -> None:
    missing = [each.name for each in dataclasses.fields(SamplingParams) if f"`{each.name}`" not in PAGE]
    assert not missing
