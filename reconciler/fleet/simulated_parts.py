"""What a part of a replica over several nodes knows of the others: each goes by its own process and by its leader's."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.fleet.simulated_engine import EngineProcess
    from reconciler.fleet.simulated_replica import SimulatedReplica
    from reconciler.fleet.simulated_seams import Home

TOKEN_EVERY = 30.0
"""How long a leader that lost a rank looks well: until it is asked for a token again (`agent.serving`)."""


def leader(home: Home, replica: SimulatedReplica) -> EngineProcess | None:
    """The process that answers for it on another node; None where it leads itself, or none runs."""
    return None if home.leads(replica) else home.parts(replica)[0]


def leader_serves(home: Home, replica: SimulatedReplica, now: float) -> bool:
    """Whether it is a rank whose leader goes on without it: such a one is for the planner."""
    found = leader(home, replica)
    return found is not None and found.answers(now)


def leaderless_since(home: Home, replica: SimulatedReplica, now: float) -> float | None:
    """While it starts: since when nothing listens where its leader answers; None where somebody does, or it leads."""
    found = leader(home, replica)
    if home.leads(replica) or (found is not None and found.loaded_at <= now < found.gone_at):
        return None
    return now if replica.leaderless_since is None else replica.leaderless_since


def leader_gone(replica: SimulatedReplica, seconds: float) -> str:
    """Why a part is ended although its own process runs."""
    node = replica.entry.placement.nodes[0]
    return f"its leader on {node} has not listened for {seconds:.0f} s; it is launched again with it"


def met(home: Home, replica: SimulatedReplica, now: float) -> tuple[EngineProcess, ...] | None:
    """Its processes on other nodes once all are loaded and meet this one; None until then."""
    process, others = replica.process, home.parts(replica)
    found = tuple(each for each in others if each is not None and process is not None and process.meets(each, now))
    return found if len(found) == len(others) else None


def silent_since(home: Home, replica: SimulatedReplica) -> float | None:
    """Since when it looks silent: as soon as a part is mute, its leader is gone, or a token needs a lost rank."""
    process = replica.process
    if process is None:
        return None
    silent = [process.all_mute_since]
    if home.leads(replica):
        silent.append(None if replica.lonely_since is None else replica.lonely_since + TOKEN_EVERY)
    elif process.partners:
        silent.append(process.partners[0].gone_at)
    return min((at for at in silent if at is not None and at < inf), default=None)
