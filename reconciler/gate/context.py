"""Rules on how many tokens a request may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem, Severity
from reconciler.gate.rule import rule
from reconciler.sizing.refusal import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.gate.subject import Context
    from reconciler.sizing.refusal import Refusal


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
