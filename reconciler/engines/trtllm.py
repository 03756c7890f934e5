"""TensorRT-LLM's `trtllm-serve` on PyTorch: command line, readiness, requests in flight, stop.

Written against the public source of 1.2 and of 1.4's release candidates; neither parsed nor run, for it does not
install without its GPUs. Over several nodes it runs under Open MPI (`mpi`), which was run, with a stand-in for it. No
adapters: it takes them with each request, by a path, and lists none (`refs/adapter-architecture` refuses them).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines import mpi, openai_answers
from reconciler.engines import trtllm_answers as answers
from reconciler.engines.base import Launch, StopBehaviour
from reconciler.engines.trtllm_arguments import OPTIONS, arguments, environment, options
from reconciler.engines.trtllm_log import read_failure, read_progress
from reconciler.engines.urls import base_url

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, InFlight, Paths, Probe, Site, Verdict
    from reconciler.engines.progress import Progress

STOP = StopBehaviour(
    repeat_after=timedelta(seconds=10), kill_after=timedelta(seconds=30), idle_for=timedelta(seconds=5)
)
"""On SIGTERM its HTTP server waits for open connections, without a limit, then the engine is shut down. After the drain
there are none but kept ones, which it closes after 5 s; the rest is for ranks to let go of the GPUs.

`/metrics` tells of a step when it is over, and of none while one runs: a request looks like none for as long as one
step takes. Its longest reads `max_num_tokens` of prompt at once (8,192 as it comes): a second of a large model."""


class TensorRtLlm:
    """TensorRT-LLM; see `EngineSupport`."""

    kind = Engine.TRTLLM
    install_hint = "pip install tensorrt_llm, in an environment of its own, or its container"
    stop = STOP
    key_env: tuple[str, ...] = ()
    """None: it takes no keys."""

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line, and the options file beside it where the replica has a directory."""
        files = {} if site.directory is None else {OPTIONS: options(declaration)}
        url = base_url(site.host if site.leads else site.leader, site.port)
        words = arguments(declaration, site)
        before = mpi.launcher(declaration, site, words)
        env = {**environment(site), **mpi.environment(declaration, site)}
        return Launch(words, env, url, serves=site.leads, files=files, launcher=before)

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Up, serving under the right name where it can be told one, and answering a request."""
        return (answers.HEALTH, openai_answers.MODELS, openai_answers.question(declaration))

    def judge(self, declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:
        """Read the answer to a readiness or liveness probe."""
        return answers.judge(declaration, probe, answer, paths)

    def liveness(self) -> Probe:
        """`/health`, which asks whether the engine behind the HTTP server is there."""
        return answers.HEALTH

    def load(self) -> Probe:
        """`/metrics`, which empties what it tells: one reader only, the agent."""
        return answers.METRICS

    def read_load(self, answer: Answer) -> InFlight | None:
        """Requests in flight, from its last step."""
        return answers.read_load(answer)

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:  # noqa: ARG002  # has none
        """None: it has no adapters by name."""
        return None

    def unload_adapter(self, declaration: Declaration, name: str) -> Probe | None:  # noqa: ARG002  # has none
        """None, as for loading."""
        return None

    def adapters(self) -> Probe | None:
        """None, as for loading."""
        return None

    def read_adapters(self, answer: Answer) -> frozenset[str] | None:  # noqa: ARG002  # nothing was asked
        """None, as for asking."""
        return None

    def read_progress(self, line: str) -> Progress | None:
        """The step of its start that a log line announces."""
        return read_progress(line)

    def read_failure(self, tail: str) -> str | None:
        """Why it ended, from the tail of its log."""
        return read_failure(tail)
