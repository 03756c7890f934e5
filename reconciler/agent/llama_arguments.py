"""llama-server's command line, as far as the wheel's server needs it: words → xllamacpp.CommonParams.

The rules are llama.cpp's: no `--flag=value`, no abbreviations, `_` counts as `-` in flags that start with `--`, the
last of a repeated flag wins. Neither its environment variables, but for the API key, nor its config file are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xllamacpp

from reconciler.agent.llama_flags import FLAG_BY_NAME, Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

AUTO_SLOTS = 4
"""llama-server's own choice without `--parallel`, with one cache that all slots share."""


class Refused(Exception):
    """The command line is wrong; the text is what llama-server would print."""


def parse(words: Sequence[str]) -> Any:
    """Read a command line; Refused says what is wrong with it."""
    params = _server_defaults()
    position = 0
    while position < len(words):
        name = words[position]
        if name.startswith("--"):
            name = name.replace("_", "-")
        flag = FLAG_BY_NAME.get(name)
        if flag is None:
            raise Refused(f"error: invalid argument: {name}")
        value = ""
        if flag.takes_value:
            position += 1
            if position == len(words):
                raise _refused(flag, name, "expected value for argument")
            value = words[position]
        try:
            flag.apply(params, value)
        except (ValueError, OverflowError, OSError) as error:
            raise _refused(flag, name, str(error)) from error
        position += 1
    return _completed(params)


def _server_defaults() -> Any:
    """llama-server's defaults where the wheel has others."""
    params = xllamacpp.CommonParams()
    params.port = 8080
    params.n_parallel = -1
    params.cpuparams_batch.n_threads = -1
    # The drain reads it; llama-server answers 501 without the flag.
    params.endpoint_metrics = True
    return params


def _completed(params: Any) -> Any:
    """What llama-server makes of flags that were not given."""
    if not params.model.path:
        raise Refused("error: --model is required")
    if params.n_parallel < 0:
        params.n_parallel, params.kv_unified = AUTO_SLOTS, True
    if params.cpuparams_batch.n_threads < 1:
        params.cpuparams_batch.n_threads = params.cpuparams.n_threads
    if params.embedding:
        params.n_batch = min(params.n_batch, params.n_ubatch)
    return params


def _refused(flag: Flag, name: str, reason: str) -> Refused:
    usage = ", ".join(flag.names) + (" VALUE" if flag.takes_value else "")
    return Refused(f'error while handling argument "{name}": {reason}\n\nusage:\n{usage}')
