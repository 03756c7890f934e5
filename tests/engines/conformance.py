"""What every engine module must hold, whatever the engine: `test_conformance.py` asks it of all in the registry.

Each check takes the module and says with an assertion what it does wrong. `docs/adding-an-engine.md` lists them for
whoever writes a new one. What only one engine has is tested beside it.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine, SecretRef, Task
from reconciler.domain.placement import PlacedGpu
from reconciler.engines.base import PORT_BLOCK, Answer, Health, Launch, Port, Site
from reconciler.engines.secret_settings import SecretSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.engines.base import EngineSupport

ON_CPUS = frozenset({Engine.LLAMACPP, Engine.VLLM})
OVER_NODES = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TRTLLM})
TASKS: Mapping[Engine, Sequence[Task]] = {
    Engine.VLLM: (Task.GENERATE, Task.EMBED, Task.RERANK, Task.TRANSCRIBE),
    Engine.SGLANG: (Task.GENERATE, Task.EMBED, Task.RERANK, Task.TRANSCRIBE),
    Engine.TRTLLM: (Task.GENERATE,),
    Engine.LLAMACPP: (Task.GENERATE, Task.EMBED, Task.RERANK),
    Engine.COMFYUI: (Task.IMAGE, Task.GENERATE),
}
VISIBLE = frozenset({"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"})
"""The variables that choose GPUs, by vendor."""

SECRET = "s3cr3t-value"
OWN = "/state/agent/launches/m-0@1a2b3c4d"
"""The replica's own directory."""

WITHIN = timedelta(minutes=1)
"""A stop is over in, after the drain: whoever waits for the GPUs of one waits for this."""

ADAPTERS = [{"name": "sql", "source": "file:/weights/sql"}, {"name": "chat", "source": "file:/weights/chat"}]


def a_declaration(kind: Engine, **fields: Any) -> Declaration:
    """One replica on one GPU, unless the fields say otherwise."""
    usual = {"model": "m", "engine": kind, "source": "file:/weights/m", "context": 4096}
    on_cpus = fields.get("gpu_class", "") is None
    where = {"memory_gib": 8.0, "cpu_cores": 4} if on_cpus else {"gpu_class": "h100-80gb", "gpus": 1}
    task = {"task": TASKS[kind][0]}
    return Declaration.model_validate(usual | where | task | fields)


def a_site(declaration: Declaration, **fields: Any) -> Site:
    """The node's side: GPUs by number from 3 on, so that none has the number of its place."""
    count = declaration.gpus if declaration.gpu_class is not None else 0
    usual: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 20_000,
        "model_path": "/weights/m",
        "adapter_paths": {adapter.name: f"/weights/{adapter.name}" for adapter in declaration.adapters},
        "gpus": tuple(PlacedGpu(uuid=f"GPU-{index}", index=index) for index in range(3, 3 + count)),
        "cache_dir": "/var/cache/engines",
    }
    return Site(**usual | fields)


def launches(engine: EngineSupport) -> Iterator[tuple[Declaration, Site, Launch]]:
    """One of every kind that the engine is there for."""
    kind, further = engine.kind, []
    if kind in ON_CPUS:
        further.append(a_declaration(kind, gpu_class=None))
    if kind is not Engine.COMFYUI:
        further += [a_declaration(kind, gpus=count) for count in (2, 4, 8)]
        further.append(a_declaration(kind, adapters=ADAPTERS, aliases=("alias",), max_concurrency=8))
    further += [a_declaration(kind, task=task) for task in TASKS[kind]]
    for declaration in (a_declaration(kind), *further):
        site = a_site(declaration)
        yield declaration, site, engine.launch(declaration, site)
    if kind in OVER_NODES:
        declaration = a_declaration(kind, gpus=8, nodes=2)
        for rank in (0, 1):
            site = a_site(declaration, addresses=("10.0.0.1", "10.0.0.2"), rank=rank)
            yield declaration, site, engine.launch(declaration, site)


def launches_are_deterministic(engine: EngineSupport) -> None:
    for declaration, site, launch in launches(engine):
        assert engine.launch(declaration, site) == launch
        turned = dict(sorted(site.adapter_paths.items()))
        again = a_site(declaration, addresses=site.addresses, rank=site.rank, adapter_paths=turned)
        assert engine.launch(declaration, again) == launch, "the order of a mapping decides nothing"


def exactly_the_placed_gpus_are_seen(engine: EngineSupport) -> None:
    for declaration, site, launch in launches(engine):
        seen = [value for name, value in launch.env.items() if name in VISIBLE]
        placed = ",".join(gpu.uuid for gpu in site.gpus)
        assert placed in seen, f"{declaration.gpus} GPUs: {launch.env}"
        assert set(seen) <= {placed}, "two variables that choose GPUs must not choose differently"
        assert site.gpus or launch.env.keys() >= VISIBLE, "on CPUs no GPU is opened, whoever made those of the node"


def it_listens_where_it_was_told(engine: EngineSupport) -> None:
    for declaration, site, launch in launches(engine):
        said = [*launch.arguments, *launch.env.values()]
        assert launch.serves is site.leads
        assert launch.url == f"http://{site.host if site.leads else site.leader}:{site.port}"
        if site.leads:
            assert any(site.host in word for word in said), declaration
            assert any(str(site.port) in word for word in said), declaration
        assert not any(everywhere in said for everywhere in ("0.0.0.0", "::", "*")), "nobody asked for every interface"
    declaration = a_declaration(engine.kind)
    open_to_all = engine.launch(declaration, a_site(declaration, host="0.0.0.0"))
    assert any("0.0.0.0" in word for word in open_to_all.arguments)


def another_port_and_address_change_nothing_else(engine: EngineSupport) -> None:
    declaration = a_declaration(engine.kind)
    one, other = (engine.launch(declaration, a_site(declaration, port=port)) for port in (20_000, 21_000))
    same = [a == b for a, b in zip(one.arguments, other.arguments, strict=True)]
    assert same.count(False) <= PORT_BLOCK
    assert [a.replace("20", "21") for a in one.arguments if "200" in a] == [b for b in other.arguments if "210" in b]


def ports_stay_in_their_block(engine: EngineSupport) -> None:
    assert {port.value for port in Port} <= set(range(PORT_BLOCK))
    for _, site, launch in launches(engine):
        ports = [int(word) for word in launch.arguments if word.isdigit() and 20_000 <= int(word) < 30_000]
        assert all(site.port <= port < site.port + PORT_BLOCK for port in ports)


def secrets_are_in_no_argument_and_no_environment_of_ours(engine: EngineSupport) -> None:
    names = ("HF_TOKEN", *engine.key_env)
    by_name: dict[str, str | SecretRef] = {name: SecretRef(secret="key") for name in names} | {"PLAIN": SECRET}
    by_value = dict.fromkeys((*names, "PLAIN"), SECRET)
    bare = a_declaration(engine.kind)
    without = engine.launch(bare, a_site(bare, directory=OWN))
    for env in (by_name, by_value):
        declaration = a_declaration(engine.kind, env=env)
        launch = engine.launch(declaration, a_site(declaration, directory=OWN))
        assert SECRET not in repr(launch)
        assert launch.env == without.env, "the agent adds declared variables, with the values of secrets"
        handed = {name: each for name, each in launch.files.items() if isinstance(each, SecretSettings)}
        assert {variable for each in handed.values() for variable in each.variables.values()} <= set(engine.key_env)
        assert {name: each for name, each in launch.files.items() if name not in handed} == without.files
        further = set(launch.arguments) - set(without.arguments)
        paths = {word for word in further if not word.startswith("--")}
        assert paths == {f"{OWN}/{name}" for name in handed}, "nothing but the name of a file tells that there is a key"


def the_users_flags_are_read_last(engine: EngineSupport) -> None:
    declaration = a_declaration(engine.kind, args=("--some-flag", "value"))
    assert engine.launch(declaration, a_site(declaration)).arguments[-2:] == ("--some-flag", "value")


def one_profile_moved_to_another_count_keeps_nothing_of_the_first(engine: EngineSupport) -> None:
    if engine.kind is Engine.COMFYUI:
        return
    for count in (1, 2, 4, 8):
        declaration = a_declaration(engine.kind, gpus=count)
        launch = engine.launch(declaration, a_site(declaration))
        for other in {1, 2, 4, 8} - {count}:
            moved = declaration.model_copy(update={"gpus": other})
            assert engine.launch(moved, a_site(moved)).arguments != launch.arguments
            back = moved.model_copy(update={"gpus": count})
            assert engine.launch(back, a_site(back)) == launch


def it_is_ready_only_by_the_right_name_and_an_answer_of_its_kind(engine: EngineSupport) -> None:
    for task in TASKS[engine.kind]:
        declaration = a_declaration(engine.kind, task=task)
        probes = engine.readiness(declaration)
        assert any(probe.method == "GET" for probe in probes), "one that costs nothing, for a look without an agent"
        empty_answers = [engine.judge(declaration, probe, Answer(200, b"")) for probe in probes]
        assert empty_answers[-1].health is Health.WRONG, "an empty answer is none"
        if any(probe.path == "/v1/models" for probe in probes):
            models = next(probe for probe in probes if probe.path == "/v1/models")
            assert engine.judge(declaration, models, _models("m")).health is Health.OK
            for name in ("other", "m2", ""):
                assert engine.judge(declaration, models, _models(name)).health is Health.WRONG
            last = probes[-1]
            assert last.method == "POST"
            assert "m" in json.dumps([last.body, last.form])
            for empty in (b"", b"{}", b"[]", b'{"data": []}', b'{"usage": {"completion_tokens": 0}}'):
                assert engine.judge(declaration, last, Answer(200, empty)).health is Health.WRONG
            assert engine.judge(declaration, last, _good(task)).health is Health.OK


def no_answer_is_silence_and_an_error_is_never_ready(engine: EngineSupport) -> None:
    declaration = a_declaration(engine.kind)
    for probe in (*engine.readiness(declaration), engine.liveness()):
        assert engine.judge(declaration, probe, Answer(None)).health is Health.SILENT
        for status in (400, 401, 404, 429, 500, 503):
            verdict = engine.judge(declaration, probe, Answer(status, b"some error"))
            assert verdict.health is not Health.OK
            assert verdict.detail, "a person must be told"


def requests_in_flight_are_not_known_without_an_answer(engine: EngineSupport) -> None:
    for answer in (Answer(None), Answer(500), Answer(200, b""), Answer(200, b"\xff{}"), Answer(404, b"no metrics")):
        assert engine.read_load(answer) is None, "not known is not nothing"


def an_empty_log_tells_nothing(engine: EngineSupport) -> None:
    for text in ("", "\n", "INFO: all is well\n" * 20):
        assert engine.read_failure(text) is None
    for line in ("", "INFO: all is well", "\x1b[31m"):
        assert engine.read_progress(line) is None


def its_stop_ends(engine: EngineSupport) -> None:
    assert timedelta() < engine.stop.repeat_after < engine.stop.kill_after <= WITHIN


def adapters_are_listed_where_they_are_loaded(engine: EngineSupport) -> None:
    declaration = a_declaration(engine.kind, **({} if engine.kind is Engine.COMFYUI else {"adapters": ADAPTERS}))
    load = engine.load_adapter(declaration, "new", "/weights/new")
    unload = engine.unload_adapter(declaration, "new")
    assert (load is None) is (unload is None)
    if load is not None and unload is not None:
        assert engine.adapters() is not None, "what was loaded must be seen"
        assert "new" in json.dumps([load.body, load.path])
        assert "/weights/new" in json.dumps(load.body)
        assert "new" in json.dumps([unload.body, unload.path])
        assert engine.load_adapter(a_declaration(engine.kind), "new", "/weights/new") is None, "without a slot for it"
    for answer in (Answer(None), Answer(500), Answer(200, b"")):
        assert engine.read_adapters(answer) is None


def a_missing_engine_can_be_installed(engine: EngineSupport) -> None:
    assert len(engine.install_hint.split()) > 1
    assert "\n" not in engine.install_hint


CHECKS = (
    launches_are_deterministic,
    exactly_the_placed_gpus_are_seen,
    it_listens_where_it_was_told,
    another_port_and_address_change_nothing_else,
    ports_stay_in_their_block,
    secrets_are_in_no_argument_and_no_environment_of_ours,
    the_users_flags_are_read_last,
    one_profile_moved_to_another_count_keeps_nothing_of_the_first,
    it_is_ready_only_by_the_right_name_and_an_answer_of_its_kind,
    no_answer_is_silence_and_an_error_is_never_ready,
    requests_in_flight_are_not_known_without_an_answer,
    an_empty_log_tells_nothing,
    its_stop_ends,
    adapters_are_listed_where_they_are_loaded,
    a_missing_engine_can_be_installed,
)


def _models(name: str) -> Answer:
    return Answer(200, json.dumps({"object": "list", "data": [{"id": name, "object": "model"}]}).encode())


def _good(task: Task) -> Answer:
    """In OpenAI's API, the least that is an answer."""
    content: Any = {
        Task.GENERATE: {"choices": [{"text": ""}], "usage": {"completion_tokens": 1}},
        Task.EMBED: {"data": [{"embedding": [0.5]}]},
        Task.RERANK: {"results": [{"index": 0, "relevance_score": 0.5}]},
        Task.TRANSCRIBE: {"text": ""},
        Task.IMAGE: {"usage": {"completion_tokens": 1}},
    }[task]
    return Answer(200, json.dumps(content).encode())
