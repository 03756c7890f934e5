"""The words of what `sources` finds while reading files: the checks are there, the explanations here."""

from __future__ import annotations

from reconciler.domain.finding import Severity
from reconciler.gate.rule import Rule, dashed, words


def _read(name: str, text: str) -> Rule:
    return Rule(f"yaml/{dashed(name)}", Severity.ERROR, *words(text))


SYNTAX = _read(
    "syntax",
    """
    A file that is not well-formed YAML 1.2 says nothing that could be trusted.

    The place is where the parser gave up; the slip is often on the line above: an open quote or bracket, a tab where
    spaces belong, a colon without a space after it. One document a file; JSON is YAML.
    Bytes that are not UTF-8, and characters that YAML forbids, count as syntax too.

        name: llama-70b
          context: 32768         refused: deeper than the key it should stand beside

    Until the file reads, nothing of it is checked further and nothing that runs because of it is stopped.
    """,
)

DUPLICATE_KEY = _read(
    "duplicate-key",
    """
    A key written twice makes one of its values disappear without a word.

    Most parsers keep the last one, so a value can look changed and not be. Both lines are named.

        gpus: 4
        memory_gib: 64
        gpus: 8                  refused

    Remove one of the two.
    """,
)

UNKNOWN_FIELD = _read(
    "unknown-field",
    """
    A field that nothing reads is a setting that somebody believes in.

    Every key must be a field that this place in this kind of file has; the nearest right spelling is shown.
    A field that exists elsewhere, or that does not apply here, is refused too: a canary on an external model would
    be accepted and ignored.

        gpu: 4                   refused: gpus

    Correct the spelling, or remove the field. `reconciler explain FIELD` says where a field belongs.
    """,
)

TYPE = _read(
    "type",
    """
    A value must be of the kind that its field has, exactly: nothing is guessed from text.

    Counts are whole numbers: true, "4" and 4.0 are refused. Lists are lists, even of one. Durations are 90s, 30m, 2h or
    1d. Text that looks like a number or a date needs quotes. A required field that is missing, and fields that
    contradict each other, are told here too.

        gpus: "4"                refused: gpus: 4
        aliases: chat            refused: aliases: [chat]
        version: 1.10            refused: "1.10", else it would be 1.1

    The message says what was expected.
    """,
)

EMPTY = _read(
    "empty",
    """
    A file without content is not a model: taking it for one, or for its removal, would both be guesses.

    A file that was emptied by a failed script or a bad merge must not stop what it described.

    To remove a model remove its file. To keep it in the catalog and not run it, write scaling: {min: 0, max: 0}.
    """,
)

ALIAS = _read(
    "alias",
    """
    Anchors, aliases and merge keys let a line far away change a model, and nine short lines fill the memory.

    What a file says should be readable where it says it, in a diff of a pull request too.

        defaults: &d {engine: vllm}
        profiles: [*d]           refused
        <<: *d                   refused

    Write the value out. What many models share belongs under defaults in cluster.yaml. A text that starts with & or *
    needs quotes.
    """,
)

DIRECTIVE = _read(
    "directive",
    """
    A directive such as %YAML 1.1 changes what the rest of the file means: no would turn into false.

    Files are YAML 1.2, where only true and false are flags, and need no directive.

        %YAML 1.1                refused

    Remove the line. A text that starts with % needs quotes.
    """,
)

TAG = _read(
    "tag",
    """
    A tag such as !!python/object or !secret asks a reader to build something; here nothing is ever built from text.

    Types follow from the fields, so tags carry nothing that is needed.

        context: !!int "32768"   refused: context: 32768

    Remove the tag. A secret is written {secret: name}. A text that starts with ! needs quotes.
    """,
)

TOO_LARGE = _read(
    "too-large",
    """
    A file over 256 KiB, or a tree over 64 MiB or 10,000 files, is not something that people wrote.

    The bounds keep one commit from stopping the reconciler of a fleet. A model's file has a few kilobytes.

    Look for weights, logs or generated files that were committed by mistake. A larger fleet is split into several.
    """,
)

TOO_DEEP = _read(
    "too-deep",
    """
    Nothing in cluster/ is nested deeper than 32 levels, and parsers break on files that are.

    The deepest field that exists has six levels, and lists and maps in brackets count like indented ones.
    A file of a few kilobytes with a thousand open brackets keeps a parser busy for seconds.

    Look for brackets that are never closed, or for a generated file.
    """,
)

NOT_A_FILE = _read(
    "not-a-file",
    """
    What is desired must be the bytes of one commit, so links, submodules and LFS pointers cannot be read.

    A symlink can point outside the tree, a submodule is another commit, an LFS pointer is not the content.
    Files that have no place in cluster/ are told here too: they would look as if they did something.

    Replace it by a plain file: models/<name>.yaml, nodes/<pool>.yaml, locks/<name>.json or cluster.yaml.
    """,
)

NAME_MISMATCH = _read(
    "name-mismatch",
    """
    The file's stem is the name, so that a model is found by its name and two files cannot hold one.

    models/llama-70b.yaml must say name: llama-70b, and nodes/h100.yaml must say pool: h100.

    Rename the file, or correct the name. To rename a running model write moved: with its former name, which keeps its
    slots and replaces its replicas by the rollout policy instead of stopping all of them.
    """,
)

DUPLICATE_NAME = _read(
    "duplicate-name",
    """
    A name stands for one thing: a second node, model or profile of that name would hide the first.

    Nodes are unique over all pools, models over the catalog, profiles within their model. Ranges are written out
    before they are compared.

        nodes: [gpu-[01-16], gpu-07]    refused: gpu-07 is in the range

    In a pool, write the entry that differs alone and leave it out of the range: gpu-[01-06], gpu-07, gpu-[08-16].
    """,
)
