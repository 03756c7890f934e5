"""Which fields each object of `cluster/` has, read off the types, and where a field that stands wrong belongs."""

from __future__ import annotations

import difflib
import re
import types
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.model_spec import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Path

ObjectPath = tuple[str, ...]
"""A path without list positions; `*` stands for any key of a free mapping."""

_FILE_BY_SPEC: dict[type[BaseModel], str] = {
    FleetSpec: "cluster.yaml",
    PoolSpec: "nodes/POOL.yaml",
    ModelSpec: "models/NAME.yaml",
}

# What people write who come from an engine's flags or from another tool. By field name, normalised.
_FOREIGN_NAMES = {
    "models": "one model a file: models/NAME.yaml",
    "pools": "one pool a file: nodes/POOL.yaml",
    "replicas": "write scaling: {min: N}",
    "min_replicas": "write scaling: {min: N}",
    "max_replicas": "write scaling: {max: N}",
    "tensor_parallel": "it is never written: it follows from gpus, nodes and the other parallel fields",
    "tensor_parallel_size": "it is never written: it follows from gpus, nodes and the other parallel fields",
    "tp": "it is never written: it follows from gpus, nodes and the other parallel fields",
    "max_model_len": "write context, on the model",
    "context_length": "write context, on the model",
    "max_num_seqs": "write max_concurrency",
    "gpu_memory_utilization": "write memory_share",
    "priority": "write class",
    "environment": "write env",
    "envs": "write env",
}


@dataclass(slots=True)
class _Index:
    """The objects of one file."""

    fields_by_object: dict[ObjectPath, tuple[str, ...]] = field(default_factory=dict)
    meanings: dict[ObjectPath, str] = field(default_factory=dict)
    """What a field is, from the docstring beneath it."""
    lists: set[ObjectPath] = field(default_factory=set)
    maps: set[ObjectPath] = field(default_factory=set)

    def add(self, annotation: Any, path: ObjectPath) -> None:
        """Take in a type and what it holds."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            infos = annotation.model_fields.items()
            self.fields_by_object[path] = tuple(info.alias or name for name, info in infos)
            for name, info in infos:
                inner = (*path, info.alias or name)
                self.meanings[inner] = (info.description or "").rstrip(".")
                self.add(info.annotation, inner)
        elif origin is tuple:
            self.lists.add(path)
            self.add(arguments[0], path)
        elif origin is dict:
            self.maps.add(path)
            self.add(arguments[1], (*path, "*"))
        elif origin is Annotated:
            self.add(arguments[0], path)
        elif origin in {types.UnionType, Union}:
            for argument in arguments:
                self.add(argument, path)


@cache
def _index(spec: type[BaseModel]) -> _Index:
    index = _Index()
    index.add(spec, ())
    return index


def object_path(spec: type[BaseModel], path: Path) -> ObjectPath:
    """A place in a document → the place in the schema."""
    index = _index(spec)
    written: ObjectPath = ()
    for step in path:
        if isinstance(step, str):
            written = (*written, "*" if written in index.maps else step)
    return written


def fields_of(spec: type[BaseModel], path: ObjectPath) -> tuple[str, ...]:
    """The fields of the object at a place in the schema."""
    return _index(spec).fields_by_object.get(path, ())


def describe(spec: type[BaseModel], path: ObjectPath, name: str) -> str:
    """What a field is, in one clause; empty where the schema does not say."""
    meaning = _index(spec).meanings.get((*path, name), "")
    return meaning if meaning[:2].isupper() else meaning[:1].lower() + meaning[1:]


def meant(spec: type[BaseModel], path: ObjectPath, name: str) -> str | None:
    """The field of the object at `path` that a misspelt name most likely means."""
    here = fields_of(spec, path)
    normal = _normalised(name)
    return normal if normal in here else nearest(normal, here)


def advice(spec: type[BaseModel], path: ObjectPath, name: str) -> str:
    """What to do about a field that the object at `path` does not have."""
    normal = _normalised(name)
    near = meant(spec, path, name)
    elsewhere = _belongs(spec, normal)
    if elsewhere is not None and near != normal:
        return f"{normal} belongs {elsewhere}"
    if normal in _FOREIGN_NAMES:
        return _FOREIGN_NAMES[normal]
    if near is not None:
        return f"write {near}"
    every = {each for names in _index(spec).fields_by_object.values() for each in names}
    near = nearest(normal, sorted(every))
    if near is not None:
        return f"did you mean {near}? It belongs {_belongs(spec, near)}"
    return f"fields here: {', '.join(fields_of(spec, path))}"


def nearest(word: str, choices: Sequence[str]) -> str | None:
    """The choice that a misspelt word most likely means."""
    # 0.6 is difflib's own threshold; a long word costs quadratic time and is no misspelling.
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6) if len(word) <= 64 else []  # noqa: PLR2004
    return close[0] if close else None


def _belongs(spec: type[BaseModel], name: str) -> str | None:
    """`under profiles[]`, or `in nodes/POOL.yaml`: where a field of this name exists."""
    places = [path for path, names in _index(spec).fields_by_object.items() if name in names]
    if places:
        return " or ".join(f"under {_written(spec, path)}" if path else "at the top level" for path in places[:3])
    files = [file for other, file in _FILE_BY_SPEC.items() if name in fields_of(other, ())]
    return f"in {' or '.join(files)}" if files else None


def _written(spec: type[BaseModel], path: ObjectPath) -> str:
    index = _index(spec)
    steps = [step + ("[]" if path[: position + 1] in index.lists else "") for position, step in enumerate(path)]
    return ".".join(steps).replace("*", "NAME")


def _normalised(name: str) -> str:
    """`gpuClass`, `GPU-class` → `gpu_class`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+", "_", name[:64]).lower()
