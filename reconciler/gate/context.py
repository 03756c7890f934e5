"""Rules on how many tokens a request may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.domain.model_spec import Engine
from reconciler.gate.memory import first, is_judged, told_by
from reconciler.gate.rule import rule
from reconciler.sizing.refusal import Reason
from reconciler.sizing.sized import MemoryReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.gate.subject import Context
    from reconciler.sizing.refusal import Refusal

_USUAL = 8
"""Few requests use their whole context; that they use an eighth of it in the mean is a judgement (see `slots`)."""


@rule(Severity.ERROR)
def beyond_trained(context: Context) -> Iterator[Problem]:
    """A model answers nonsense beyond the length it was trained for, and vLLM and SGLang refuse to start.

    The trained length is that of its config, with RoPE scaling where the config or args declare it
    (--hf-overrides in vLLM, --json-model-override-args in SGLang).

        context: 65536           refused for a model with max_position_embeddings 32768 and no rope_scaling

    Write at most the trained length, or take a checkpoint that declares a longer one.
    vLLM and SGLang can be overruled in env, with VLLM_ALLOW_LONG_MAX_MODEL_LEN and
    SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN; llama.cpp and TensorRT-LLM start anyway: then it is a warning.
    Profiles that agree say it once, as an error where one of them would not start.
    """
    for model, refused in _by_model(context).items():
        where = context.desired.where_by_model[model].at("context")
        for refusal in refused.values():
            yield Problem(where, refusal.message, refusal.hint, model, severity=refusal.severity)


@rule(Severity.WARNING)
def slots(context: Context) -> Iterator[Problem]:
    """The cache holds far fewer full-length requests at once than max_concurrency lets in.

    It works while requests are shorter. When they are not, vLLM throws some out and computes them again, SGLang lets
    them wait, and llama.cpp with one cache for all slots answers with an error.

        max_concurrency: 128 with room for 13 requests of 32,768 tokens     warned, with the 13
        max_concurrency: 64 with room for 13                                a note

    vLLM, SGLang and TensorRT-LLM give out the cache block by block, and to let in more requests than fit at full length
    is how they are run, since few requests use their whole context. So it is a warning where less than an eighth of
    max_concurrency fits, and a note from there on. The eighth is a judgement and not measured: with it requests are
    thrown out or wait once they use more than an eighth of context in the mean. llama.cpp sets each slot's cache aside
    or shares one, and is warned from the first slot that is too many.

    Write a number nearer to what fits, or leave it where requests are known to be short. Where not even requests of a
    sixteenth of context fit so many times it is memory/pool that tells, and this rule is silent.
    """
    for use in context.uses:
        wanted, tokens = use.profile.max_concurrency, use.model.context
        if wanted is None or tokens is None or not is_judged(context, use):
            continue
        sized = context.knowledge.sized(use)
        told = first(sized)
        if told is not None and told_by(told) is MemoryReason.SLOTS:
            yield use.problem("max_concurrency", told.message)
        elif told is None and sized.concurrency is not None and sized.concurrency < wanted:
            held = f"{int(sized.concurrency)} requests of {tokens:,} tokens"
            usual = sized.concurrency * beyond_full_length(use.profile.engine) >= wanted
            message = f"max_concurrency is {wanted}; the cache holds {held} at once"
            yield use.problem(
                "max_concurrency",
                f"{message}, and more of shorter ones" if usual else message,
                severity=Severity.NOTE if usual else None,
            )


def beyond_full_length(engine: Engine) -> int:
    """How many times as many requests as fit at full length may be let in as a matter of course."""
    return _USUAL if engine in (Engine.VLLM, Engine.SGLANG, Engine.TRTLLM) else 1


def _by_model(context: Context) -> dict[str, dict[str, Refusal]]:
    """Of profiles that say the same the gravest: the length is the model's, and stands in one place."""
    refused: dict[str, dict[str, Refusal]] = {}
    for use in context.uses:
        for refusal in context.knowledge.refusals(use):
            if refusal.reason is Reason.BEYOND_TRAINED:
                told = refused.setdefault(use.model.name, {})
                if refusal.message not in told or refusal.severity is Severity.ERROR:
                    told[refusal.message] = refusal
    return refused
