"""Every file of a tree is read as something or told about: by its place, its kind and its size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.domain.finding import Severity
from reconciler.sources.loader import load
from reconciler.sources.tree import FILE_LIMIT_BYTES, FILES_LIMIT, FileKind, Tree, TreeFile
from tests.sources.trees import MODEL, POOL, a_tree, all_told, told

GOOD = {"models/llama.yaml": MODEL, "nodes/gpu.yaml": POOL}
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def with_entry(path: str, kind: FileKind = FileKind.FILE, data: bytes = b"", size: int | None = None) -> Tree:
    """A good tree with one more entry, whatever it is."""
    tree = a_tree(GOOD)
    entry = TreeFile(path, kind, data, len(data) if size is None else size)
    return replace(tree, files=tuple(sorted((*tree.files, entry), key=lambda file: file.path)))


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("models/qwen.yml", "rename it to qwen.yaml"),
        ("models/a/qwen.json", "rename it to qwen.yaml; JSON is YAML too"),
        ("models/qwen.YAML", "rename it to qwen.yaml"),
        ("nodes/l40s.yml", "rename it to l40s.yaml"),
        ("llama-2.yaml", "move it under models/ (a model) or nodes/ (a pool), or remove it"),
        ("model/qwen.yaml", "move it under models/ (a model) or nodes/ (a pool), or remove it"),
        ("Models/qwen.yaml", "move it under models/ (a model) or nodes/ (a pool), or remove it"),
        ("a/cluster.yaml", "move it under models/ (a model) or nodes/ (a pool), or remove it"),
        ("locks/llama.yaml", "run `reconciler lock`"),
        ("locks/old/llama.json", "run `reconciler lock`"),
    ],
)
def test_what_looks_like_ours_in_a_wrong_place_is_an_error(path: str, hint: str) -> None:
    loaded = load(with_entry(path, data=b"name: x\n"))
    assert [(each.rule, each.file, each.severity) for each in loaded.findings] == [
        ("yaml/not-a-file", f"cluster/{path}", Severity.ERROR)
    ]
    assert hint in (loaded.findings[0].hint or "")
    assert loaded.desired is None


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "models/README.md",
        ".gitkeep",
        "models/llama.yaml.bak",
        "models/llama",
        "locks/notes.txt",
        ".github/x.yml",
    ],
)
def test_what_is_not_ours_is_told_of_and_allowed(path: str) -> None:
    loaded = load(with_entry(path, data=b"x"))
    assert [told(each) for each in loaded.findings] == ["yaml/not-a-file - not part of the fleet, not read"]
    assert loaded.findings[0].severity is Severity.NOTE
    assert loaded.desired is not None


@pytest.mark.parametrize(
    ("kind", "fragment"),
    [
        (FileKind.SYMLINK, "symlinks are refused"),
        (FileKind.SUBMODULE, "a repository inside the cluster directory is refused"),
        (FileKind.OTHER, "a device, socket or FIFO"),
    ],
)
@pytest.mark.parametrize("path", ["models/qwen.yaml", "README.md"])
def test_only_files_are_read(kind: FileKind, fragment: str, path: str) -> None:
    loaded = load(with_entry(path, kind))
    assert [finding.rule for finding in loaded.findings] == ["yaml/not-a-file"]
    assert fragment in loaded.findings[0].message
    assert loaded.desired is None
    assert loaded.broken == ({"qwen"} if path.startswith("models/") else set())


def test_the_lock_that_an_editor_holds_on_an_open_file_is_no_error() -> None:
    assert load(with_entry("models/.#llama.yaml", FileKind.SYMLINK)).desired is not None


def test_a_large_file_is_refused_unread() -> None:
    loaded = load(with_entry("models/qwen.yaml", size=FILE_LIMIT_BYTES + 1))
    assert [told(each).partition(" (")[0] for each in loaded.findings] == [
        "yaml/too-large - the file has 256 KiB; at most 256 KiB are read"
    ]
    assert loaded.broken == {"qwen"}


def test_a_file_of_just_the_limit_is_read() -> None:
    text = MODEL + "#" * (FILE_LIMIT_BYTES - len(MODEL))
    assert load(a_tree({"models/llama.yaml": text})).desired is not None


def test_an_lfs_pointer_is_not_the_file() -> None:
    loaded = load(a_tree({"models/llama.yaml": LFS}))
    assert [told(each).partition(" (")[0] for each in loaded.findings] == [
        "yaml/not-a-file 1:1 this is a Git LFS pointer, not the file itself"
    ]
    assert loaded.broken == {"llama"}


@pytest.mark.parametrize("name", ["models/\udcff.yaml", "models/a\nb.yaml", "models/\x1b[31m.yaml"])
def test_a_name_that_cannot_be_printed(name: str) -> None:
    loaded = load(with_entry(name))
    assert [finding.rule for finding in loaded.findings] == ["yaml/not-a-file"]
    shown = loaded.findings[0].model_dump_json()
    assert shown.isprintable()
    assert shown.encode()


def test_too_many_files() -> None:
    entries = tuple(TreeFile(f"models/m{n}.yaml", FileKind.FILE, b"", 0) for n in range(FILES_LIMIT + 1))
    loaded = load(Tree(entries, "cluster"))
    assert all_told(loaded).startswith("yaml/too-large - there are more than 10,000 files")
    assert [finding.file for finding in loaded.findings] == ["cluster"]
    assert loaded.desired is None
    assert len(loaded.broken) == FILES_LIMIT + 1


def test_too_many_bytes() -> None:
    entries = tuple(TreeFile(f"models/m{n}.yaml", FileKind.FILE, b"", FILE_LIMIT_BYTES) for n in range(257))
    loaded = load(Tree(entries, ""))
    assert all_told(loaded).startswith("yaml/too-large - the files have 64 MiB; at most 64 MiB are read")
    assert loaded.findings[0].file == "."


def test_an_empty_directory_lacks_a_fleet() -> None:
    loaded = load(Tree((), "cluster"))
    assert [(each.rule, each.file, each.line) for each in loaded.findings] == [
        ("yaml/not-a-file", "cluster/cluster.yaml", None)
    ]
    assert loaded.desired is None
    assert loaded.partial.fleet.name == "unnamed"


@pytest.mark.parametrize("path", ["cluster.yml", "Cluster.yaml", "cluster.YAML"])
def test_a_fleet_under_another_name_is_not_also_missing(path: str) -> None:
    loaded = load(Tree((TreeFile(path, FileKind.FILE, b"name: prod\n", 11),), ""))
    assert [told(each) for each in loaded.findings] == [
        "yaml/not-a-file - the fleet is read from cluster.yaml (rename it to cluster.yaml)"
    ]
