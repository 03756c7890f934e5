"""The tables: exactly the built-in GPU classes of the design, with figures that can be true."""

from __future__ import annotations

import pytest

from reconciler.domain.fleet_spec import GpuClass
from reconciler.domain.tables import gpu_classes, table

DESIGN = """
a10 a10g a16 a30 a40 a100-40gb a100-80gb b200 b300 gaudi2 gaudi3 gb200 gh200-96gb h20-96gb h100-80gb h100-nvl-94gb h200
l4 l20 l40 l40s mi210 mi250x mi300x mi325x mi350x mi355x rtx-3090 rtx-4090 rtx-5090 rtx-6000-ada rtx-a6000 rtx-pro-6000
t4 v100-16gb v100-32gb
"""
"""As section 3 of the design lists them."""


def test_the_built_in_classes_are_those_of_the_design() -> None:
    assert set(gpu_classes()) == set(DESIGN.split())


@pytest.mark.parametrize("slug", DESIGN.split())
def test_an_engine_sees_a_little_less_than_the_driver_reports(slug: str) -> None:
    figures = gpu_classes()[slug]

    assert figures.memory_mib * 0.94 <= figures.engine_mib <= figures.memory_mib


@pytest.mark.parametrize("slug", [slug for slug in DESIGN.split() if slug.endswith("gb")])
def test_a_class_that_names_a_size_has_about_that_much(slug: str) -> None:
    nominal_mib = int(slug.rpartition("-")[2].removesuffix("gb")) * 1024

    assert nominal_mib * 0.9 <= gpu_classes()[slug].memory_mib <= nominal_mib * 1.03


@pytest.mark.parametrize("row", table("gpu_classes")["classes"].values(), ids=table("gpu_classes")["classes"].keys())
def test_every_row_says_how_its_engine_figure_was_found(row: dict[str, object]) -> None:
    assert row["engine_figure"] in {"published", "derived", "remembered"}


@pytest.mark.parametrize(
    ("slug", "memory_mib", "engine_gib"),
    [("h100-80gb", 81559, 79.18), ("h200", 143771, 139.80), ("l40s", 46068, 44.40), ("rtx-4090", 24564, 23.55)],
)
def test_figures_that_were_published_by_many(slug: str, memory_mib: int, engine_gib: float) -> None:
    assert gpu_classes()[slug].memory_mib == memory_mib
    assert gpu_classes()[slug].engine_mib / 1024 == pytest.approx(engine_gib, abs=0.1)


def test_a_class_is_two_positive_sizes() -> None:
    assert GpuClass(memory_mib=1, engine_mib=1).engine_mib == 1
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        GpuClass(memory_mib=0, engine_mib=1)
