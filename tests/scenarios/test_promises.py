"""What a whole reading of `cluster/` must promise too: neither file names nor the order of documents change a plan."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.base import canonical_json
from reconciler.planning.planner import plan
from reconciler.sources.loader import load
from tests.builders import NOON, a_model, a_replica, heard, observation
from tests.scenarios.draws import NODES, specs
from tests.scenarios.history import History, fleet_file, model_file, pool_file


@settings(max_examples=25)
@given(st.data(), st.dictionaries(st.sampled_from(["a", "b", "c"]), specs, min_size=1))
def test_file_names_and_the_order_of_fields_change_no_plan(data: st.DataObject, models: dict[str, Any]) -> None:
    """A pool can be cut into files of any name, and a file can be written in any order of its fields."""
    whole = {"nodes/pool.yaml": pool_file(NODES)}
    pools = data.draw(st.fixed_dictionaries({name: st.sampled_from(["x", "zz", "0"]) for name in NODES}))
    cut = {
        f"nodes/{pool}.yaml": pool_file({name: NODES[name] for name in NODES if pools[name] == pool}, pool)
        for pool in sorted(set(pools.values()))
    }
    assert planned(whole | written(models)) == planned(cut | written(models, turned=True))


def written(models: dict[str, Any], *, turned: bool = False) -> dict[str, str]:
    """The files of models, as they are or with every mapping in the opposite order."""
    texts = {f"models/{name}.yaml": model_file(name, spec) for name, spec in models.items()}
    return {path: json.dumps(backwards(json.loads(text))) if turned else text for path, text in texts.items()}


def backwards(value: Any) -> Any:
    match value:
        case dict():
            return {name: backwards(value[name]) for name in reversed(value)}
        case list():
            return [backwards(each) for each in value]
        case _:
            return value


def planned(files: dict[str, str]) -> bytes:
    """The plan and the orders for a fleet on which an older form of model `a` runs."""
    history = History({"cluster.yaml": fleet_file()} | files)
    sha = history.commit("any", NOON)
    loaded = load(history.trees[-1])
    assert not loaded.findings
    desired = loaded.partial
    nodes = {node.name: node for node in desired.nodes}
    old = a_replica(a_model("a", context=512), 0, "n1", [0])
    seen = observation(*(heard(node, *([old] if name == "n1" else [])) for name, node in nodes.items()))
    decision = plan(desired, seen, (), NOON, commit=sha)
    orders = [each.model_dump(mode="json") for node in decision.orders.values() for each in node.entries]
    return canonical_json([decision.plan.model_dump(mode="json"), orders])
