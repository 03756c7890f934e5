"""ComfyUI's server: command line, readiness, workflows in flight, stop.

Written against its public source of 0.38; not run: it is in no package registry. A model's source is a workflow file:
it must be on the node for a replica to start, and is sent with each request by whoever asks; ComfyUI itself starts
without one, and finds the weights that a workflow names below its own directory.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines import comfyui_answers as answers
from reconciler.engines.base import Launch, StopBehaviour
from reconciler.engines.caches import kernel_caches
from reconciler.engines.comfyui_log import read_failure, read_progress
from reconciler.engines.devices import visible_devices
from reconciler.engines.numa import bound
from reconciler.engines.urls import base_url

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, InFlight, Paths, Probe, Site, Verdict
    from reconciler.engines.progress import Progress

STOP = StopBehaviour(repeat_after=timedelta(seconds=5), kill_after=timedelta(seconds=10))
"""It has no handler for SIGTERM and ends at once, whatever it computes; the agent has waited for its queue before. The
rest is for the driver to take back the GPU's memory."""


class ComfyUi:
    """ComfyUI; see `EngineSupport`."""

    kind = Engine.COMFYUI
    install_hint = "git clone https://github.com/comfyanonymous/ComfyUI, and pip install -r its requirements.txt"
    """The command in agent.json is then its Python and its main.py."""
    stop = STOP
    key_env: tuple[str, ...] = ()
    """None: it takes no keys."""

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line. Declared `args` come last: it takes the last of a repeated flag.

        Two of one node share an installation. Each one empties its temporary directory when it starts and when it ends,
        and locks its database: so both are its own.
        """
        arguments = (
            *("--listen", site.host, "--port", str(site.port)),
            *("--database-url", "sqlite:///:memory:"),
            *(() if site.directory is None else ("--temp-directory", site.directory)),
            *declaration.args,
        )
        environment = {**visible_devices(site), **kernel_caches(site)}
        return Launch(arguments, environment, base_url(site.host, site.port), launcher=bound(site))

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:  # noqa: ARG002  # serves under no name
        """It is ComfyUI, computes on a GPU, and its queue answers."""
        return (answers.SYSTEM, answers.QUEUE)

    def judge(
        self,
        declaration: Declaration,  # noqa: ARG002  # it serves under no name
        probe: Probe,
        answer: Answer,
        paths: Paths | None = None,  # noqa: ARG002  # nor under that of a file
    ) -> Verdict:
        """Read the answer to a readiness or liveness probe."""
        return answers.judge(probe, answer)

    def liveness(self) -> Probe:
        """`/queue`; workflows run on a thread of their own, and one that hangs is not noticed."""
        return answers.QUEUE

    def load(self) -> Probe:
        """`/queue`."""
        return answers.QUEUE

    def read_load(self, answer: Answer) -> InFlight | None:
        """Workflows in flight, from its queue."""
        return answers.read_load(answer)

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:  # noqa: ARG002  # has none
        """None: workflows name the adapters they want themselves."""
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
