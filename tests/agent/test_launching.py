"""What a launch is made of: the node's side of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from reconciler.agent.cards import Card
from reconciler.agent.config import AgentConfig
from reconciler.agent.inventory import Inventory, numa_nodes
from reconciler.agent.launching import Weights, cache_directory, locate_weights, prepare
from reconciler.domain.declaration import Declaration
from reconciler.domain.observed import GpuLinks, ObservedGpu
from reconciler.engines.base import Launch, Site, Vendor
from tests.agent.bench import ScriptedEngine
from tests.agent.entries import NODE, run_entry

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.assignment import RunEntry


class Seeing(ScriptedEngine):
    """Keeps the site it was launched with."""

    site: Site | None = None

    @override
    def launch(self, declaration: Declaration, site: Site) -> Launch:
        self.site = site
        return super().launch(declaration, site)


def site_of(entry: RunEntry, weights: Weights, directory: Path, seen: Inventory | None = None) -> Site:
    config = AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=directory)
    engine = Seeing()
    where: Any = {"port": 20_000, "log": directory / "log", "environment": {}}
    prepare(entry, config, engine, ("program",), weights, **where, inventory=seen or Inventory())
    assert engine.site is not None
    return engine.site


def with_class(entry: RunEntry, gpu_class: str) -> RunEntry:
    return entry.model_copy(update={"declaration": entry.declaration.model_copy(update={"gpu_class": gpu_class})})


def test_weights_are_found_with_their_size_and_the_ranks_of_adapters(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.safetensors").write_bytes(b"x" * 700)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "adapter_config.json").write_text(json.dumps({"r": 32}))
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    adapters = [{"name": "sql", "source": "file:/sql"}, {"name": "other", "source": "file:/other.gguf"}]
    entry = run_entry(source="file:/m")
    declaration = Declaration.model_validate(entry.declaration.model_dump() | {"adapters": adapters})
    found = locate_weights(
        entry.model_copy(update={"declaration": declaration}), lambda source: tmp_path / source.removeprefix("file:/")
    )
    assert (found.model, found.model_bytes) == (tmp_path / "m", 700)
    assert found.adapter_ranks == {"sql": 32}


def test_the_site_has_what_the_node_knows(tmp_path: Path) -> None:
    weights = Weights(tmp_path / "m", None, {"sql": tmp_path / "sql"}, 700, {"sql": 32}, 200)
    site = site_of(with_class(run_entry(gpus=(1, 3)), "mi300x"), weights, tmp_path)
    assert (site.host, site.port, site.leads) == ("127.0.0.1", 20_000, True)
    assert [gpu.index for gpu in site.gpus] == [1, 3]
    assert site.vendor is Vendor.AMD
    assert (site.weight_bytes, site.vocabulary_bytes, dict(site.adapter_ranks)) == (700, 200, {"sql": 32})
    assert site.cache_dir == str(tmp_path / "agent" / "kernels" / "llamacpp-any-mi300x")


def test_what_the_driver_knows_of_a_gpu_goes_before_the_name_of_its_class(tmp_path: Path) -> None:
    card = Card(vendor=Vendor.AMD, bus="0000:05:00.0", uuid="GPU-1", name="AMD W7900")
    gpu = ObservedGpu(uuid="GPU-1", index=1, gpu_class="lab-48gb")
    entry = with_class(run_entry(gpus=(1,)), "lab-48gb")
    site = site_of(entry, Weights(tmp_path, None, {}), tmp_path, Inventory((gpu,), cards=(card,)))
    assert site.vendor is Vendor.AMD
    assert site_of(entry, Weights(tmp_path, None, {}), tmp_path).vendor is Vendor.NVIDIA


def test_gpus_are_bound_to_their_memory_where_all_of_it_is_known() -> None:
    known = [ObservedGpu(uuid=f"GPU-{n}", index=n, gpu_class="l4", links=GpuLinks(numa=n // 2)) for n in range(4)]
    placed = run_entry(gpus=(3, 0)).placement.shards[0].gpus
    assert numa_nodes(known, placed, numactl=True) == (1, 0)
    assert numa_nodes(known, placed, numactl=False) == (), "an engine ends at once without it"
    assert numa_nodes(known[:2], placed, numactl=True) == ()


def test_compiled_kernels_are_kept_apart_by_version_and_class(tmp_path: Path) -> None:
    config = AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=tmp_path)

    def name(**fields: object) -> str:
        return cache_directory(run_entry().declaration.model_copy(update=fields), config).name

    assert name(gpu_class=None) == "llamacpp-any-cpu"
    assert name(gpu_class="h100-80gb/1g.10gb", version="0.32.0+cpu") == "llamacpp-0.32.0+cpu-h100_80gb_1g.10gb"
    assert name(gpu_class="l4", version="../../x y") == "llamacpp-.._.._x_y-l4"
