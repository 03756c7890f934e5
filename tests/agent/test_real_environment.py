"""What an engine's process really gets: its environment and words as the kernel has them, launched by a real agent.

The engine is a shell that waits, whatever it is given: what counts is what reached it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from reconciler.agent.launching import INHERITED
from reconciler.domain.model_spec import Engine, SecretRef
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    import pytest

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.assignment import RunEntry
    from tests.agent.machine import Machine

WAITS = ("/bin/sh", "-c", "while :; do sleep 1; done", "engine")
KEY = "k-s3cr3t-4711"
CACHES = (
    *("TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TILELANG_CACHE_DIR", "TVM_FFI_CACHE_DIR"),
    *("FLASHINFER_WORKSPACE_BASE", "TRTLLM_DG_CACHE_DIR", "CUDA_CACHE_PATH"),
)
OF_AMD = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
OWN_CACHE = {
    Engine.VLLM: ("VLLM_CACHE_ROOT",),
    Engine.SGLANG: ("SGLANG_CACHE_DIR", "SGLANG_JIT_CACHE_DIR", "SGLANG_DG_CACHE_DIR"),
}
SETTINGS = {
    Engine.VLLM: ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "VLLM_ENGINE_READY_TIMEOUT_S"),
    Engine.SGLANG: ("HF_HUB_OFFLINE",),
    Engine.TRTLLM: ("HF_HUB_OFFLINE", "TRTLLM_NO_USAGE_STATS"),
    Engine.LLAMACPP: ("XDG_CONFIG_HOME",),
}
"""What else we set: silence towards the outside, and patience."""


def with_gpus(machine: Machine, gpu_class: str) -> AgentConfig:
    """The machine has two GPUs of this class for each engine, and every engine."""
    changed = {"gpus": (gpu_class,) * 2 * len(Engine), "engines": dict.fromkeys(Engine, WAITS)}
    machine.config = machine.config.model_copy(update=changed)
    return machine.config


def launched(machine: Machine, *entries: RunEntry) -> dict[Engine, psutil.Process]:
    """The process of each of these, by its engine."""
    machine.ensure()
    machine.send(*entries)
    wait_until(lambda: all(each.pid is not None for each in machine.node().replicas))
    return {each.entry.declaration.engine: psutil.Process(each.pid) for each in machine.node().replicas}


def an_entry(machine: Machine, engine: Engine, gpu_class: str, **env: str | SecretRef) -> RunEntry:
    """On its own two GPUs, the second one first."""
    first = 2 * list(Engine).index(engine)
    entry = machine.entry(first, engine=engine, gpus=(first + 1, first), env=dict(env) or None)
    declared = entry.declaration.model_copy(update={"gpu_class": gpu_class})
    return entry.model_copy(update={"declaration": declared})


def placed(engine: Engine) -> str:
    first = 2 * list(Engine).index(engine)
    return f"GPU-{first + 1},GPU-{first}"


def test_gpus_by_uuid_caches_and_nothing_of_the_agents_own(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    config = with_gpus(machine, "h100-80gb")
    found = launched(machine, *(an_entry(machine, engine, "h100-80gb", DECLARED="yes") for engine in Engine))
    assert found.keys() == set(Engine)
    for engine, process in found.items():
        seen = process.environ()
        assert seen["CUDA_VISIBLE_DEVICES"] == placed(engine)
        assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert not {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"} & seen.keys()
        assert seen["DECLARED"] == "yes"
        own = (*CACHES, *OWN_CACHE.get(engine, ()))
        caches = ("CUDA_CACHE_PATH",) if engine is Engine.LLAMACPP else own  # it compiles nothing itself
        kept = str(config.directory / "kernels" / f"{engine}-any-h100_80gb")
        assert all(seen[name].startswith(f"{kept}/") for name in caches)
        assert KEY not in repr(seen)
        ours = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "DECLARED", *caches, *SETTINGS.get(engine, ())}
        assert seen.keys() - {"PWD", "OLDPWD", "SHLVL", "_"} - set(INHERITED) == ours, "the shell's own apart"


def test_amds_cards_are_chosen_by_their_own_variable_and_no_other(machine: Machine) -> None:
    config = with_gpus(machine, "mi300x")
    found = launched(machine, *(an_entry(machine, engine, "mi300x") for engine in Engine))
    assert found.keys() == set(Engine)
    for engine, process in found.items():
        seen = process.environ()
        assert seen["ROCR_VISIBLE_DEVICES"] == placed(engine)
        assert not {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & seen.keys()
        kept = [seen.get(name, "").startswith(f"{config.directory}/kernels/") for name in OF_AMD]
        assert kept == [engine is not Engine.LLAMACPP] * 2


def test_on_cpus_no_gpu_is_seen(machine: Machine) -> None:
    with_gpus(machine, "h100-80gb")
    entries = (machine.entry(ordinal, engine=engine) for ordinal, engine in enumerate((Engine.VLLM, Engine.LLAMACPP)))
    found = launched(machine, *entries)
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"):
        assert {process.environ()[name] for process in found.values()} == {""}, "whoever made the node's GPUs"
    assert found[Engine.VLLM].environ()["OMP_NUM_THREADS"] == "1"
    words = found[Engine.LLAMACPP].cmdline()
    assert words[words.index("--device") + 1] == "none"
    assert words[words.index("--threads") + 1] == "1"


def test_a_key_from_a_named_secret_is_where_its_engine_reads_it_and_nowhere_else(machine: Machine) -> None:
    config = with_gpus(machine, "h100-80gb")
    config.secrets.mkdir(parents=True)
    (config.secrets / "key").write_text(f"{KEY}\n")
    takers = {Engine.VLLM: "VLLM_API_KEY", Engine.LLAMACPP: "LLAMA_API_KEY", Engine.SGLANG: "SGLANG_API_KEY"}
    secret = SecretRef(secret="key")
    entries = [an_entry(machine, engine, "h100-80gb", **{name: secret}) for engine, name in takers.items()]
    found = launched(machine, *entries)
    for engine, name in takers.items():
        assert found[engine].environ().get(name) == (None if engine is Engine.SGLANG else KEY)
        assert KEY not in shlex.join(found[engine].cmdline())
    words = found[Engine.SGLANG].cmdline()
    written = Path(words[words.index("--config") + 1])
    assert written.read_text("utf-8") == f'api-key: "{KEY}"\n'
    assert written.stat().st_mode & 0o077 == 0
    assert KEY not in machine.node().model_dump_json()
    kept = [path for path in config.directory.rglob("*") if path.is_file() and config.secrets not in path.parents]
    assert written in kept
    holding = {path for path in kept if KEY.encode() in path.read_bytes()}
    # Beside it what the agent's own requests are signed with, once the secret's file has changed.
    assert holding == {written, *(path for path in kept if path.name == "engine-keys.json")}
    assert not any(path.stat().st_mode & 0o077 for path in holding)


def test_caches_are_kept_over_a_restart(machine: Machine) -> None:
    with_gpus(machine, "h100-80gb")
    entry = an_entry(machine, Engine.VLLM, "h100-80gb")
    before = launched(machine, entry)[Engine.VLLM]
    kept = {name: before.environ()[name] for name in CACHES}
    before.kill()
    wait_until(lambda: machine.one().failure is not None)
    machine.send(entry.model_copy(update={"attempt": 1}))
    wait_until(lambda: machine.one().pid not in {None, before.pid})
    after = psutil.Process(machine.one().pid).environ()
    assert {name: after[name] for name in CACHES} == kept
