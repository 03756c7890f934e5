"""What the stateful machine draws: models, rollouts, how launches go, and for how long things are broken."""

from __future__ import annotations

from math import inf
from typing import Any

from hypothesis import strategies as st

from reconciler.fleet.simulated_engine import Course

NODES: dict[str, dict[str, Any]] = {"n1": {"gpus": 2}, "n2": {"gpus": 2}, "n3": {"gpus": 4}}

names = st.sampled_from(["a", "b"])
nodes = st.sampled_from(sorted(NODES))
TIMES = {"ready_timeout": "40s", "drain_timeout": "10s", "withdraw_delay": "2s"}
policies = st.builds(
    lambda way, min_ready, bake: {**TIMES, **way, "min_ready": min_ready, "bake": bake},
    st.sampled_from(
        [
            {"strategy": "surge"},
            {"strategy": "surge", "max_surge": 2, "max_unavailable": 1},
            {"strategy": "surge_or_in_place"},
            {"strategy": "surge_or_in_place", "max_unavailable": 1},
            {"strategy": "in_place"},
            {"strategy": "in_place", "max_unavailable": 2},
        ]
    ),
    st.sampled_from(["0s", "5s"]),
    st.sampled_from(["0s", "0s", "0s", "20s"]),
)
plain_counts = st.sampled_from([0, 1, 2, 2, 3]).map(lambda low: {"min": low})
counts = st.one_of(
    *[plain_counts] * 3,
    st.just({"min": 0, "max": 1, "idle_timeout": "1m"}),
    st.sampled_from([1, 2]).map(lambda low: {"min": low, "max": 3, "target": 8}),
)
specs = st.fixed_dictionaries(
    {
        "scaling": counts,
        "gpus": st.sampled_from([1, 1, 1, 2]),
        "profile": st.sampled_from([{}, {}, {}, {}, {"nodes": 2}]),
        "context": st.sampled_from([1024, 2048, 4096]),
        "class": st.sampled_from([None, None, "critical", "opportunistic"]),
        "rollout": policies,
    }
)
durations = st.sampled_from([2, 12, 45, None])
"""Seconds until it is well again; None leaves that to another step."""
courses = st.sampled_from(
    [
        Course(load_seconds=8.0, drain_seconds=1.0, exit_seconds=1.0),
        Course(load_seconds=35.0, drain_seconds=20.0, exit_seconds=6.0),
        Course(load_seconds=70.0, exit_seconds=1.0, frees_seconds=15.0),
        Course(load_seconds=3.0, failure="out of memory", exit_seconds=1.0),
        Course(load_seconds=inf, silent=True, exit_seconds=1.0),
        Course(load_seconds=8.0, exit_seconds=1.0, notices_seconds=inf),
    ]
)
WELL = Course(load_seconds=8.0, drain_seconds=1.0, exit_seconds=1.0)
