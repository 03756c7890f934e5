"""Wire values of the agent's tests: holders, entries and assignments that say only what matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reconciler.agent.clock import Moment
from reconciler.agent.lifecycle import begin
from reconciler.agent.records import ReplicaRecord
from reconciler.domain.assignment import Assignment, ClaimRequest, Entry, Holder, RunEntry, StopEntry
from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine, SecretRef
from reconciler.domain.placement import PlacedGpu, Placement, Shard, replica_id

NODE = "here"
BOOT = "boot-1"
MORNING = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def moment(seconds: float) -> Moment:
    """So many seconds after the start of every test."""
    return Moment(1_000.0 + seconds, MORNING + timedelta(seconds=seconds))


def gpu(index: int) -> PlacedGpu:
    return PlacedGpu(uuid=f"GPU-{index}", index=index)


def run_entry(
    ordinal: int = 0,
    *,
    model: str = "tiny",
    context: int = 256,
    source: str = "file:/weights/tiny.gguf",
    gpus: tuple[int, ...] = (),
    node: str = NODE,
    fleet: str = "test",
    restart: str | None = None,
    attempt: int = 0,
    retry: str | None = None,
    ready_timeout: float = 600,
    engine: Engine = Engine.LLAMACPP,
    env: dict[str, str | SecretRef] | None = None,
) -> RunEntry:
    declaration = Declaration(
        model=model,
        engine=engine,
        source=source,
        context=context,
        memory_gib=1,
        cpu_cores=1,
        gpus=len(gpus),
        gpu_class="l4" if gpus else None,
        env=env,
    )
    shards = (Shard(node=node, gpus=tuple(gpu(index) for index in gpus)),)
    digest = declaration.launch_digest()
    identity = replica_id(model, ordinal, digest, restart, None, shards)
    return RunEntry(
        id=identity,
        fleet=fleet,
        model=model,
        ordinal=ordinal,
        placement=Placement(id=identity, shards=shards),
        declaration=declaration,
        digest=digest,
        restart=restart,
        retry=retry,
        ready_timeout=timedelta(seconds=ready_timeout),
        attempt=attempt,
    )


def stop_entry(entry: RunEntry, *, withdraw: float = 5, drain: float = 120) -> StopEntry:
    return StopEntry(id=entry.id, withdraw_delay=timedelta(seconds=withdraw), drain_timeout=timedelta(seconds=drain))


def pending(entry: RunEntry | None = None) -> ReplicaRecord:
    return begin(entry or run_entry(), moment(0), BOOT)


def holder(name: str = "apply-1", *, boot_id: str = "elsewhere", pid: int = 1, started_at: float = 1.0) -> Holder:
    return Holder(id=name, command="apply", user="ada", machine="desk", boot_id=boot_id, pid=pid, started_at=started_at)


def claim_request(name: str = "apply-1", *, epoch: int | None = None, ttl: float = 30, **who: object) -> ClaimRequest:
    return ClaimRequest(fleet="test", holder=holder(name).model_copy(update=who), ttl_seconds=ttl, epoch=epoch)


def assignment(
    *entries: Entry, epoch: int = 1, generation: int = 1, node: str = NODE, name: str = "apply-1", fleet: str = "test"
) -> Assignment:
    return Assignment(fleet=fleet, node=node, holder=name, epoch=epoch, generation=generation, entries=entries)
