"""Ask the demo's model one question, as any client of its OpenAI API would; standard library only.

The address comes from `reconciler status`: whatever is marked routable there may be asked, and nothing else.
"""  # noqa: INP001  # a script, not part of a package

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

MODEL = "smollm"
QUESTION = "In one sentence: what is GitOps?"

MAX_TOKENS = 64
"""Two sentences: enough for an answer, a few seconds of one core."""

TIMEOUT_SECONDS = 120
"""A busy laptop writes a few tokens a second; nothing sensible takes longer than this."""


def routable_address(status: dict[str, Any], model: str) -> str | None:
    """Base URL of the first replica of the model that requests may be sent to; None when there is none."""
    replicas = [replica for each in status["models"] if each["name"] == model for replica in each["replicas"]]
    return next((replica["address"] for replica in replicas if replica["routable"]), None)


def ask(address: str, model: str, question: str) -> str:
    """The model's answer; temperature 0, so that the same question gives the same answer."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    request = Request(  # noqa: S310  # the address is the one that the reconciler reported
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    # No proxy: a proxy of the environment cannot reach an engine on this machine.
    with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_SECONDS) as response:
        answer: str = json.load(response)["choices"][0]["message"]["content"]
    return answer.strip()


def main() -> int:
    """Exit code: 0 answered, 1 nobody to ask or no answer."""
    question = " ".join(sys.argv[1:]) or QUESTION
    status = [sys.executable, "-m", "reconciler", "status", "--format", "json"]
    told = subprocess.run(status, stdout=subprocess.PIPE, check=False)
    if told.returncode != 0:
        return told.returncode
    address = routable_address(json.loads(told.stdout), MODEL)
    if address is None:
        sys.stderr.write(f"no replica of {MODEL} is routable: `reconciler status` says why\n")
        return 1
    sys.stdout.write(f"{address}\nQ: {question}\n")
    sys.stdout.flush()
    try:
        answer = ask(address, MODEL, question)
    except (URLError, TimeoutError) as error:
        sys.stderr.write(f"{MODEL} at {address} did not answer: {error}\n")
        return 1
    sys.stdout.write(f"A: {answer}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
