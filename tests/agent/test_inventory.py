"""From what drivers tell to the GPUs of a node: classes, what contradicts the declaration, and cards that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.cards import Card, Measurement, class_of, contradicts
from reconciler.agent.config import AgentConfig
from reconciler.agent.gpu_report import islands, mig_profile, numa_node
from reconciler.agent.inventory import Inventory, inventory
from reconciler.domain.placement import PlacedGpu
from reconciler.domain.tables import gpu_classes, table
from reconciler.engines.base import Vendor
from tests.agent.entries import NODE

WHERE = "correct gpus in agent.json, of the local node in nodes/"
H100 = "NVIDIA H100 80GB HBM3"

NAMES = [
    ("Tesla T4", 15_360, "t4"),
    ("Tesla V100-SXM2-16GB", 16_160, "v100-16gb"),
    ("Tesla V100-SXM3-32GB", 32_768, "v100-32gb"),
    ("NVIDIA A10", 23_028, "a10"),
    ("NVIDIA A10G", 23_028, "a10g"),
    ("NVIDIA A16", 15_356, "a16"),
    ("NVIDIA A30", 24_576, "a30"),
    ("NVIDIA A40", 46_068, "a40"),
    ("NVIDIA A40", 49_140, "a40"),  # ECC off
    ("NVIDIA A100-SXM4-40GB", 40_960, "a100-40gb"),
    ("NVIDIA A100-PCIE-40GB", 40_536, "a100-40gb"),
    ("NVIDIA A100 80GB PCIe", 81_920, "a100-80gb"),
    ("NVIDIA A800-SXM4-80GB", 81_251, "a100-80gb"),
    ("NVIDIA H100 80GB HBM3", 81_559, "h100-80gb"),
    ("NVIDIA H100 PCIe", 81_559, "h100-80gb"),
    ("NVIDIA H100 NVL", 95_830, "h100-nvl-94gb"),
    ("NVIDIA H20", 97_871, "h20-96gb"),
    ("NVIDIA H200", 143_771, "h200"),
    ("NVIDIA GH200 480GB", 97_871, "gh200-96gb"),
    ("NVIDIA B200", 183_359, "b200"),
    ("NVIDIA B300 SXM6 AC", 275_040, "b300"),
    ("NVIDIA GB200", 189_471, "gb200"),
    ("NVIDIA L4", 23_034, "l4"),
    ("NVIDIA L20", 46_068, "l20"),
    ("NVIDIA L40", 46_068, "l40"),
    ("NVIDIA L40S", 46_068, "l40s"),
    ("NVIDIA GeForce RTX 3090", 24_576, "rtx-3090"),
    ("NVIDIA GeForce RTX 3090 Ti", 24_564, "rtx-3090"),
    ("NVIDIA GeForce RTX 4090", 24_564, "rtx-4090"),
    ("NVIDIA GeForce RTX 5090", 32_607, "rtx-5090"),
    ("NVIDIA RTX A6000", 49_140, "rtx-a6000"),
    ("NVIDIA RTX 6000 Ada Generation", 49_140, "rtx-6000-ada"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "rtx-pro-6000"),
    ("AMD MI210", 65_520, "mi210"),
    ("AMD MI250X", 65_520, "mi250x"),
    ("AMD MI300X", 196_592, "mi300x"),
    ("AMD MI325X", 262_128, "mi325x"),
    ("AMD MI350X", 294_896, "mi350x"),
    ("AMD MI355X", 294_896, "mi355x"),
]
"""As nvidia-smi prints them (facts/engines.md section 5)."""

OTHERS = [
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 16_376, "rtx-4090-laptop-gpu"),
    ("NVIDIA GeForce RTX 4090 D", 24_564, "rtx-4090-d"),
    ("NVIDIA GeForce GTX 1080 Ti", 11_264, "gtx-1080-ti"),
    ("NVIDIA H100 64GB", 65_536, "h100-64gb"),  # a name of ours, at a size that is none
    ("NVIDIA GB300", 283_000, "gb300"),
]


def a_card(index: int, **fields: Any) -> Card:
    usual = {
        "vendor": Vendor.NVIDIA,
        "bus": f"00000000:{index + 16:02x}:00.0",
        "uuid": f"GPU-{index}",
        "name": H100,
        "card_mib": 81_559,
        "memory_mib": 81_559,
        "used_mib": 4,
    }
    return Card.model_validate(usual | fields)


def node(*gpus: str) -> AgentConfig:
    return AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=Path("/nowhere"), gpus=gpus)


def seen(*cards: Card, before: Inventory | None = None, gpus: tuple[str, ...] = (), **rest: Any) -> Inventory:
    return inventory(node(*gpus), Measurement(cards=cards, **rest), before or Inventory())


def lost(after: Inventory) -> list[tuple[int, str]]:
    return [(gpu.index, gpu.uuid) for gpu in after.gpus if not gpu.answers]


@pytest.mark.parametrize(("name", "memory_mib", "gpu_class"), NAMES + OTHERS)
def test_a_card_is_of_the_class_of_its_name_and_its_memory(name: str, memory_mib: int, gpu_class: str) -> None:
    assert class_of(a_card(0, name=name, card_mib=memory_mib)) == gpu_class


def test_every_class_has_a_name_but_gaudi_which_nothing_here_measures() -> None:
    named = {each for row in table("gpu_names")["names"] for each in row["classes"]}
    assert named == {each for each in gpu_classes() if not each.startswith("gaudi")}
    assert named == {gpu_class for _, _, gpu_class in NAMES}


@pytest.mark.parametrize(
    ("slices", "memory_mib", "card_mib", "profile"),
    [
        (1, 4_864, 40_960, "1g.5gb"),  # NVIDIA's MIG user guide: A100-40, A100-80, H100-80, H200
        (2, 9_984, 40_960, "2g.10gb"),
        (3, 20_096, 40_960, "3g.20gb"),
        (7, 40_192, 40_960, "7g.40gb"),
        (1, 9_856, 81_559, "1g.10gb"),
        (1, 20_096, 81_559, "1g.20gb"),
        (3, 40_448, 81_559, "3g.40gb"),
        (1, 16_384, 143_771, "1g.18gb"),
    ],
)
def test_a_slice_is_named_as_nvidia_names_it(slices: int, memory_mib: int, card_mib: int, profile: str) -> None:
    assert mig_profile(slices, memory_mib, card_mib) == profile


def test_an_island_is_one_where_every_two_are_joined() -> None:
    cards = {each: each for each in "abcdef"}
    pairs = {"ab", "bc", "de", "ac", "cd"}  # c and d join two islands, and make no larger one
    assert islands(cards, lambda one, other: one + other in pairs) == {
        "a": "a", "b": "a", "c": "a", "d": "d", "e": "d",
    }  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None), (None, None)])
def test_the_numa_node_is_what_the_kernel_says(tmp_path: Path, text: str | None, expected: int | None) -> None:
    device = tmp_path / "bus/pci/devices/0000:17:00.0"
    device.mkdir(parents=True)
    if text is not None:
        (device / "numa_node").write_text(text)
    assert numa_node(tmp_path, "00000000:17:00.0") == expected


@pytest.mark.parametrize(
    ("declared", "fields", "expected"),
    [
        ("h100-80gb", {}, False),
        ("h100-nvl-94gb", {}, True),
        ("h200", {}, True),
        ("mine-80gb", {}, False),
        ("h100-80gb/1g.10gb", {}, True),
        ("h100-80gb", {"mig": "1g.10gb"}, True),
        ("h100-80gb/1g.10gb", {"mig": "1g.10gb"}, False),
        ("h100-80gb/1g.10gb+me", {"mig": "1g.10gb"}, False),  # NVML does not tell these apart in one call
        ("h100-80gb/2g.20gb", {"mig": "1g.10gb"}, True),
        ("l4", {"name": "NVIDIA L4X", "card_mib": 23_000}, False),  # an unknown name of the right size
        ("l4", {"name": "NVIDIA L4X", "card_mib": 12_000}, True),
        ("l4", {"name": "NVIDIA L4X", "card_mib": None}, False),
    ],
)
def test_what_contradicts_a_declared_class(declared: str, fields: dict[str, Any], expected: bool) -> None:
    assert contradicts(declared, a_card(0, **fields)) is expected


def test_a_card_that_tells_nothing_is_the_one_that_is_missing() -> None:
    before = seen(a_card(0), a_card(1), a_card(2))
    nameless = a_card(1, bus=None, uuid=None, failure="GPU is lost", card_mib=None, memory_mib=None, used_mib=None)
    after = seen(a_card(0), nameless, a_card(2), before=before)
    assert lost(after) == [(1, "GPU-1")]
    assert [gpu.gpu_class for gpu in after.gpus] == ["h100-80gb"] * 3
    assert lost(seen(a_card(0), nameless, a_card(2), before=after)) == [(1, "GPU-1")]
    assert lost(seen(a_card(0), a_card(1), a_card(2), before=after)) == []


def test_one_that_is_lost_before_anybody_looked_keeps_its_place() -> None:
    nameless = a_card(1, bus=None, uuid=None, failure="GPU is lost", name="NVIDIA GPU", card_mib=None)
    found = seen(a_card(0), nameless, a_card(2))
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(0, "GPU-0"), (1, "unknown-1"), (2, "GPU-2")]
    assert lost(found) == [(1, "unknown-1")]
    assert found.problems == ("GPU 1 (NVIDIA GPU) does not answer: GPU is lost",)


def test_a_card_that_is_divided_anew_has_lost_nothing() -> None:
    slices = [a_card(0, uuid=f"MIG-{name}", mig="1g.10gb", memory_mib=9_856) for name in "ab"]
    before = seen(*slices, a_card(1))
    other = a_card(0, uuid="MIG-c", mig="3g.40gb", memory_mib=40_448)
    after = seen(other, a_card(1), before=before)
    assert [(gpu.uuid, gpu.gpu_class) for gpu in after.gpus] == [
        ("MIG-c", "h100-80gb/3g.40gb"),
        ("GPU-1", "h100-80gb"),
    ]
    assert lost(after) == []
    assert [gpu.uuid for gpu in seen(a_card(0), a_card(1), before=after).gpus] == ["GPU-0", "GPU-1"]


def test_a_divided_card_that_is_lost_takes_its_slices_with_it() -> None:
    slices = [a_card(0, uuid=f"MIG-{name}", mig="1g.10gb", memory_mib=9_856) for name in "ab"]
    before = seen(*slices, a_card(1))
    after = seen(a_card(0, failure="GPU is lost", used_mib=None), a_card(1), before=before)
    assert [gpu.uuid for gpu in after.gpus] == ["MIG-a", "MIG-b", "GPU-1"]
    assert lost(after) == [(0, "MIG-a"), (1, "MIG-b")]
    assert after.problems == ("GPUs 0, 1 do not answer: GPU is lost",)
    assert lost(seen(*slices, a_card(1), before=after)) == []


def test_a_driver_that_is_unloaded_leaves_its_cards_unknown() -> None:
    before = seen(a_card(0), a_card(1))
    after = seen(before=before, absent=True, problem="NVIDIA's driver says: Driver Not Loaded")
    assert lost(after) == [(0, "GPU-0"), (1, "GPU-1")]
    assert after.problems == ("GPUs 0, 1 do not answer: NVIDIA's driver says: Driver Not Loaded",)


def test_a_uuid_that_is_shown_twice_is_one_gpu() -> None:
    found = seen(a_card(0), a_card(1, uuid="GPU-0"), a_card(2), gpus=("h100-80gb",) * 3)
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(0, "GPU-0"), (1, "GPU-2")]
    assert found.problems == (
        (
            f"the driver shows {H100} with the UUID GPU-0 at 00000000:10:00.0 and again at 00000000:11:00.0: "
            "it counts once"
        ),
        f"3 GPUs declared and the driver shows 2: only those that are there are used; {WHERE}",
    )


def test_more_memory_in_use_than_there_is_is_all_of_it() -> None:
    found = seen(a_card(0, memory_mib=100, card_mib=100, used_mib=90_000))
    assert [(gpu.used_mib, gpu.memory_mib, gpu.answers) for gpu in found.gpus] == [(100, 100, True)]
    assert found.problems == (f"{H100} (GPU-0, 00000000:10:00.0) tells 90000 MiB in use of 100 MiB: it counts as full",)


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({"memory_mib": 0, "card_mib": 0}, "its driver tells that it has 0 MiB of memory"),
        ({"memory_mib": 2**43, "card_mib": 2**43}, "its driver tells that it has 8796093022208 MiB of memory"),
        ({"uuid": "GPU-a,GPU-b"}, "its driver tells the UUID GPU-a,GPU-b, which no engine can be told to use"),
        ({"uuid": None}, "its driver tells no UUID by which an engine could be told to use it"),
    ],
)
def test_a_card_that_tells_what_cannot_be_is_the_only_one_that_does_not_answer(
    fields: dict[str, Any], failure: str
) -> None:
    found = seen(a_card(0), a_card(1, **fields), a_card(2))
    assert [gpu.answers for gpu in found.gpus] == [True, False, True]
    assert found.problems[0].startswith(f"GPU 1 ({H100}, ")
    assert found.problems[0].endswith(f" does not answer: {failure}")


def test_what_a_driver_writes_moves_no_terminal() -> None:
    found = seen(
        a_card(0, name="NVIDIA \x1b[31mH100\x1b]0;owned\x07 80GB HBM3\u202e", failure="lost\x1b[2J\nnow"),
        a_card(1, name="\u200b"),
        problem="\x1b[31mred",
    )
    assert found.cards[1].name == "NVIDIA GPU"
    assert found.problems == (
        "red",
        "GPU 0 (NVIDIA H100 80GB HBM3, GPU-0, 00000000:10:00.0) does not answer: lost now",
    )


def test_cards_beyond_the_declared_ones_are_not_used() -> None:
    found = seen(a_card(0), a_card(1), gpus=("h100-80gb",))
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-0"]
    assert found.problems == (f"1 GPU declared and the driver shows 2: the others are not used; {WHERE}",)


def test_amds_cards_stand_beside_a_driver_of_nvidias_that_fails() -> None:
    amd = a_card(0, vendor=Vendor.AMD, name="AMD MI300X", card_mib=196_592)
    found = seen(amd, problem="NVIDIA's driver says: Unknown Error")
    assert [gpu.gpu_class for gpu in found.gpus] == ["mi300x"]
    assert found.problems == ("NVIDIA's driver says: Unknown Error",)
    assert found.vendor_of([PlacedGpu(uuid="GPU-0", index=0)]) is Vendor.AMD
    assert found.vendor_of([PlacedGpu(uuid="GPU-9", index=9)]) is None


def test_only_memory_that_becomes_busy_or_free_is_a_transition() -> None:
    idle, more, busy = (seen(a_card(0, used_mib=used)).shown for used in (4, 900, 1_025))
    assert idle == more != busy
