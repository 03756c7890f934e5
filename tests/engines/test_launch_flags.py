"""The flags our launch commands set, held against the flag tables: known to the program, and managed for users."""

from __future__ import annotations

from pathlib import Path

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine

GOLDEN = Path(__file__).parent / "golden" / "llamacpp_commands.txt"


def emitted() -> set[str]:
    """Every flag of the golden command lines of llama.cpp."""
    words = GOLDEN.read_text("utf-8").split()
    return {word for word in words if word.startswith("--") and len(word) > 2}


def test_every_flag_we_launch_with_is_one_of_the_program() -> None:
    table = flag_table(Engine.LLAMACPP)
    assert emitted() - set(table.by_spelling) == set()


def test_what_decides_gpus_memory_or_address_at_launch_is_refused_in_args() -> None:
    table = flag_table(Engine.LLAMACPP)
    deciding = {"--model", "--host", "--port", "--alias", "--ctx-size", "--parallel", "--threads", "--fit", "--device"}
    assert deciding <= emitted()
    assert {name for name in deciding if table.by_spelling[name].managed is None} == set()
