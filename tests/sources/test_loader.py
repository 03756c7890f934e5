"""What files say together: names, nodes, and what remains when one of them cannot be read."""

from __future__ import annotations

import itertools

import pytest

from reconciler.domain.desired import Where
from reconciler.domain.finding import Severity
from reconciler.domain.fleet_spec import GpuGroup
from reconciler.sources.loader import NODES_LIMIT, load
from tests.sources.trees import FLEET, MODEL, POOL, a_tree, all_told, loaded, told

LOCK = '{"format_version": "1.0", "sources": []}'


def named(name: str) -> str:
    return MODEL.replace("name: llama", f"name: {name}")


def test_a_good_tree_is_complete() -> None:
    result = load(
        a_tree(
            {
                "models/llama.yaml": MODEL,
                "models/chat/qwen.yaml": named("qwen"),
                "nodes/gpu.yaml": POOL,
                "locks/llama.json": LOCK,
                "locks/gone.json": LOCK,
            }
        )
    )
    assert result.findings == ()
    assert result.desired is result.partial
    assert [model.name for model in result.partial.models] == ["llama", "qwen"]
    assert [node.name for node in result.partial.nodes] == ["gpu-01", "gpu-02", "gpu-03", "gpu-17"]
    assert sorted(result.partial.locks) == ["gone", "llama"], "a lock without a model is no mistake"
    assert result.partial.where_by_model == {
        "llama": Where("cluster/models/llama.yaml"),
        "qwen": Where("cluster/models/chat/qwen.yaml"),
    }
    assert result.texts["cluster/models/llama.yaml"] == MODEL
    assert result.broken == frozenset()


def test_a_node_has_what_its_pool_says_and_what_it_says_itself() -> None:
    pool = """\
pool: gpu
gpus: {class: l4, count: 2}
memory_gib: 64
cpu_cores: 8
address: https://{node}.x:7443
labels: {rack: a, zone: z1}
drain: true
nodes:
  - n[1-2]
  - name: n3
    gpus: [{class: l4, count: 1}, {class: h100-80gb, count: 1, mig: 1g.10gb}]
    memory_gib: 32.5
    address: https://10.0.0.3:7443
    labels: {rack: b, fast: "yes"}
    drain: false
    drain_gpus: [1]
"""
    one, two, three = load(a_tree({"nodes/gpu.yaml": pool})).partial.nodes
    assert (one.name, one.pool, one.address, one.memory_gib, one.cpu_cores) == ("n1", "gpu", "https://n1.x:7443", 64, 8)
    assert one.gpu_class_by_index() == ("l4", "l4")
    assert (one.labels, one.drain, one.drain_gpus) == ({"rack": "a", "zone": "z1"}, True, ())
    assert one.where == two.where == Where("cluster/nodes/gpu.yaml", ("nodes", 0))
    assert two.address == "https://n2.x:7443"
    assert three.gpu_class_by_index() == ("l4", "h100-80gb/1g.10gb")
    assert (three.memory_gib, three.cpu_cores, three.address) == (32.5, 8, "https://10.0.0.3:7443")
    assert (three.labels, three.drain, three.drain_gpus) == ({"rack": "b", "zone": "z1", "fast": "yes"}, False, (1,))


def test_a_node_can_have_no_gpus_where_its_pool_has_some() -> None:
    pool = POOL.replace("gpus: {class: h100-80gb, count: 4}", "gpus: []")
    assert load(a_tree({"nodes/gpu.yaml": pool})).partial.node_by_name["gpu-17"].gpus == ()


def test_places_are_found_for_rules_that_come_later() -> None:
    result = loaded(model=f"{MODEL}    gpus: 6\n", pool=POOL)
    model = result.partial.where_by_model["llama"]
    assert result.locate(model.at("profiles", 0, "gpus")) == (8, 11)
    assert result.locate(model.at("profiles", 0, "nodes")) == (5, 5), "a field that was left out: its profile"
    assert result.locate(result.partial.nodes[3].where.at("gpus")) == (8, 26)
    assert result.locate(Where("cluster/locks/llama.json")) == (None, None)


def test_a_broken_model_is_not_missing_and_hides_nothing_else() -> None:
    result = load(
        a_tree(
            {
                "models/llama.yaml": MODEL.replace("32768", "010"),
                "models/qwen.yaml": named("qwen"),
                "models/bad.yaml": "a: [",
                "nodes/gpu.yaml": POOL.replace("count: 8", "count: x"),
                "cluster.yaml": FLEET + "x: 1\n",
                "locks/qwen.json": "{",
            }
        )
    )
    assert result.desired is None
    assert result.broken == {"bad"}
    assert [model.name for model in result.partial.models] == ["llama", "qwen"], "the rest of a model is for the rules"
    assert result.partial.fleet.name == "unnamed"
    assert [finding.file for finding in result.findings] == [
        "cluster/cluster.yaml",
        "cluster/locks/qwen.json",
        "cluster/models/bad.yaml",
        "cluster/models/llama.yaml",
        "cluster/nodes/gpu.yaml",
    ]
    assert [finding.model for finding in result.findings] == [None, "qwen", "bad", "llama", None]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"models/llama-70b.yaml": MODEL},
            (
                "yaml/name-mismatch 1:7 name is llama, but the file is called llama-70b.yaml "
                "(rename the file to llama.yaml, or write name: llama-70b)"
            ),
        ),
        (
            {"nodes/a/h100.yaml": POOL},
            (
                "yaml/name-mismatch 1:7 pool is gpu, but the file is called h100.yaml "
                "(rename the file to gpu.yaml, or write pool: h100)"
            ),
        ),
        (
            {"models/a/llama.yaml": MODEL, "models/b/llama.yaml": "# x\n" + MODEL},
            (
                "yaml/duplicate-name 2:7 model llama is declared twice; first in cluster/models/a/llama.yaml:1 "
                "(remove or rename one)"
            ),
        ),
        (
            {"nodes/a/gpu.yaml": POOL, "nodes/b/gpu.yaml": "pool: gpu\nnodes: [n9]\n"},
            (
                "yaml/duplicate-name 1:7 pool gpu is declared twice; first in cluster/nodes/a/gpu.yaml:1 "
                "(remove or rename one)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL, "nodes/other.yaml": "pool: other\nnodes:\n- x1\n- gpu-[03-04]\n"},
            (
                "yaml/duplicate-name 4:3 node gpu-03 is declared twice; first in cluster/nodes/gpu.yaml:7 "
                "(remove or rename one)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL.replace("name: gpu-17", "name: gpu-02")},
            (
                "yaml/duplicate-name 8:12 node gpu-02 is declared twice; first in cluster/nodes/gpu.yaml:7 "
                "(remove or rename one)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL.replace("https://{node}.gpu.internal:7443", "local")},
            (
                "yaml/type 5:10 only one node can have address: local; first in cluster/nodes/gpu.yaml:7 "
                "(remove the other node)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL.replace("{node}.gpu.internal", "gateway")},
            (
                "yaml/type 5:10 node gpu-02 has the address of another node; first in cluster/nodes/gpu.yaml:7 "
                "(write {node} where the name belongs: https://{node}.example:7443)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL.replace("{node}", "{name}")},
            (
                "yaml/type 5:10 the address of gpu-01 is not valid "
                "(write https://HOST:PORT, where {node} stands for the node's name; no user, query or other braces)"
            ),
        ),
        (
            {"nodes/gpu.yaml": POOL.replace("drain: true", "drain_gpus: [4]")},
            "yaml/type 8:68 node gpu-17 has no GPU 4 (it has GPUs 0 to 3)",
        ),
        (
            {"models/llama.yaml": MODEL.replace("source: hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b\n", "")},
            (
                "yaml/type 1:1 source is missing "
                "(write source: hf:ORG/NAME@REVISION, or external: {url: …} for a model that somebody else serves)"
            ),
        ),
        (
            {"models/llama.yaml": MODEL + "scaling: {min: 2, max: 1}\n"},
            "yaml/type 8:24 scaling.max is 1, below scaling.min 2 (write at least 2 here, or scaling.min: 1)",
        ),
        (
            {"models/llama.yaml": "name: llama\nexternal: {url: 'https://x/v1'}\nscaling: {min: 1}\n"},
            "yaml/unknown-field 3:1 scaling does not apply to an external model (remove it)",
        ),
        (
            {"cluster.yaml": FLEET + "defaults: {rollout: {max_surge: 0}}\n"},
            (
                "yaml/type 2:33 surge with max_surge 0 and max_unavailable 0 can never replace a replica "
                "(write max_surge: 1, or max_unavailable: 1)"
            ),
        ),
    ],
)
def test_what_files_must_agree_on(files: dict[str, str], expected: str) -> None:
    result = load(a_tree(files))
    assert all_told(result).split("\n")[0] == expected
    assert result.desired is None


def test_a_model_without_weights_is_not_among_what_could_be_read() -> None:
    result = loaded(model=MODEL.replace("source: hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b\n", ""))
    assert result.partial.models == ()
    assert result.broken == {"llama"}


def test_a_model_with_another_mistake_is() -> None:
    result = loaded(model=MODEL + "scaling: {min: 2, max: 1}\n")
    assert [model.name for model in result.partial.models] == ["llama"]
    assert result.broken == frozenset()


def test_of_two_with_one_name_the_first_stays() -> None:
    files = {"models/a/llama.yaml": MODEL, "models/b/llama.yaml": MODEL.replace("32768", "1024")}
    result = load(a_tree(files))
    assert [(model.name, model.context) for model in result.partial.models] == [("llama", 32768)]


def test_more_nodes_than_a_fleet_can_have() -> None:
    entries = "".join(f"- {letter}-[1-10000]\n" for letter in "abcdefghijk")
    result = loaded(pool=f"pool: gpu\nnodes:\n{entries}")
    assert [told(each).partition(" (")[0] for each in result.findings] == [
        "yaml/too-large 13:3 nodes[10]: with k-[1-10000] the fleet has more nodes than a fleet can have"
    ]
    assert len(result.partial.nodes) == NODES_LIMIT


FILES = {
    "models/llama.yaml": MODEL,
    "models/qwen.yaml": named("qwen"),
    "nodes/gpu.yaml": POOL,
    "nodes/cpu.yaml": "pool: cpu\nnodes: [c1]\n",
    "locks/llama.json": LOCK,
}
MOVED = {
    "models/team/llama.yaml": '{"profiles": [{"gpu_class": "h100-80gb", "engine": "vllm", "name": "h100"}],\n'
    '"context": 32768, "source": "hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b", "name": "llama"}',
    "models/a/b/qwen.yaml": "# moved\r\n\r\n" + named("qwen").replace("\n", "  # why\r\n"),
    "nodes/x/cpu.yaml": "nodes:\n  - name: c1\npool: 'cpu'\n",
    "nodes/gpu.yaml": "\ufeff---\n" + POOL,
    "locks/llama.json": '{"sources":[],\n"format_version":"1.0"}',
}


def test_order_form_comments_and_paths_change_nothing_that_is_desired() -> None:
    plain, moved = load(a_tree(FILES)), load(a_tree(MOVED))
    assert plain.findings == moved.findings == ()
    assert moved.partial.models == plain.partial.models
    assert moved.partial.locks == plain.partial.locks
    assert [(node.name, node.gpus, node.address) for node in moved.partial.nodes] == [
        (node.name, node.gpus, node.address) for node in plain.partial.nodes
    ]


def test_the_order_of_files_changes_nothing_at_all() -> None:
    results = [load(a_tree(dict(order))) for order in itertools.islice(itertools.permutations(FILES.items()), 10)]
    assert all(result.partial == results[0].partial and result.findings == () for result in results)


def test_a_prefix_of_nothing_names_files_as_they_are() -> None:
    result = load(a_tree({"models/llama.yaml": "a: ["}, prefix=""))
    assert [finding.file for finding in result.findings] == ["models/llama.yaml"]


def test_notes_refuse_nothing() -> None:
    result = load(a_tree({**FILES, "README.md": "x"}))
    assert [finding.severity for finding in result.findings] == [Severity.NOTE]
    assert result.desired is not None


def test_an_own_gpu_group_is_the_same_whether_in_a_list_or_not() -> None:
    one = load(a_tree({"nodes/gpu.yaml": POOL})).partial.nodes[0].gpus
    listed = POOL.replace("gpus: {class: h100-80gb, count: 8}", "gpus: [{class: h100-80gb, count: 8}]")
    assert load(a_tree({"nodes/gpu.yaml": listed})).partial.nodes[0].gpus == one
    assert one == (GpuGroup.model_validate({"class": "h100-80gb", "count": 8}),)


def test_the_text_of_a_file_is_masked_once_however_often_it_is_asked_for() -> None:
    texts = loaded(model=f"{MODEL}    env: {{A: canary}}\n").texts
    (file,) = (each for each in texts if each.endswith("llama.yaml"))
    assert "canary" not in texts[file]
    assert texts[file] is texts[file]
    assert "nothing.yaml" not in texts
