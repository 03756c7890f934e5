"""SGLang's `sglang serve`: command line, readiness, requests in flight, adapters, stop.

Written against the source of 0.5.23, its command line parsed by that version; not run, for want of a GPU. Its command
line is in `sglang_arguments`, its answers are read in `sglang_answers`, its log in `sglang_log`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines import openai_answers
from reconciler.engines import sglang_answers as answers
from reconciler.engines.base import Launch, StopBehaviour
from reconciler.engines.sglang_arguments import KEY, arguments, environment, key_file
from reconciler.engines.sglang_log import read_failure, read_progress
from reconciler.engines.urls import base_url

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, InFlight, Paths, Probe, Site, Verdict
    from reconciler.engines.progress import Progress

STOP = StopBehaviour(repeat_after=timedelta(seconds=10), kill_after=timedelta(seconds=30))
"""It looks every 5 s whether SIGTERM came and every 5 s whether requests are left, without a limit, then gives its
schedulers 15 s to let go of the GPUs (tokenizer_manager.py, sigterm_watchdog): 25 s at most once drained. Nodes behind
the first ignore SIGTERM and end when the first one tells them to. The second SIGTERM is for one that came while it was
starting."""


class Sglang:
    """SGLang; see `EngineSupport`."""

    kind = Engine.SGLANG
    install_hint = "pip install sglang, in an environment of its own"
    stop = STOP
    key_env: tuple[str, ...] = (KEY,)
    """SGLang itself takes `--api-key` only, which goes into a file: see `key_file`."""

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line on one node of the replica, and the file with its key where one is declared."""
        url = base_url(site.host if site.leads else site.leader, site.port)
        words, files = arguments(declaration, site), key_file(declaration, site)
        return Launch(words, environment(declaration, site), url, serves=site.leads, files=files)

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Serving under the right name, and answering one request of the kind it is there for.

        Not `/health`: it generates a token itself, looks for it once a second and so never answers sooner than that.
        """
        return (openai_answers.MODELS, openai_answers.question(declaration))

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
        """`/health`, which wants a token from the engine behind the HTTP server: one that hangs is noticed."""
        return answers.HEALTH

    def load(self) -> Probe:
        """`/metrics`, which `--enable-metrics` switches on."""
        return answers.METRICS

    def read_load(self, answer: Answer) -> InFlight | None:
        """Requests in flight, from its metrics; up to 0.5.12 they show the last one for up to 30 s longer."""
        return answers.read_load(answer)

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:
        """Loads one where it started with some."""
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
