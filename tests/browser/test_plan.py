"""The page of a plan, in a browser."""

from __future__ import annotations

from pathlib import Path

import braces as br
from tests.browser.chromium import Browser


def test_a_plan_has_its_tables_above_the_program(browser: Browser, tmp_path: Path) -> None:
    with br.Program() as program:
        x = br.data("x", ["batch", 8])
        br.optimizer.adam(1e-3).minimize(br.mean(br.fc(x, 4, name="up") ** 2))
    layout = br.Layout(br.Mesh({"data": 2}), {"batch": "data"}, fsdp="data")
    report = br.plan(program, layout, {"batch": 4}, device="h100")
    report.save(tmp_path / "plan.html")
    browser.open(tmp_path / "plan.html")
    shown = browser.page.inner_text("body")
    titles = (
        "memory",
        "largest values",
        "communication between devices",
        "estimated time of a step",
    )
    places = [shown.index(title) for title in titles]
    assert places == sorted(places)
    program_at = browser.page.locator("svg").first.bounding_box()
    table_at = browser.page.locator("table").first.bounding_box()
    assert program_at is not None
    assert table_at is not None
    assert table_at["y"] < program_at["y"]
