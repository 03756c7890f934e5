"""Rules on what a pull request may bring in: foreign code, plain secrets, plain http, open doors, known holes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.domain.declaration import declare
from reconciler.domain.exposures import exposing_flags, exposing_variables, risky_variable
from reconciler.domain.finding import Problem, Severity
from reconciler.domain.fleet_spec import LOCAL
from reconciler.domain.loopback import is_loopback
from reconciler.domain.model_spec import Engine
from reconciler.gate.doors import flags_given, is_on
from reconciler.gate.foreign import keys_of_others
from reconciler.gate.holes import holes_of, holes_of_fleet
from reconciler.gate.phrases import listed
from reconciler.gate.plain_text import plain_secrets, secret_labels
from reconciler.gate.remote import remote_code_of
from reconciler.gate.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.desired import Node
    from reconciler.gate.subject import Context


@rule(Severity.ERROR)
def remote_code(context: Context) -> Iterator[Problem]:
    """Trusting remote code runs Python that came with the weights, with everything that the engine may reach.

    With a pinned revision it is code that somebody could review: then this is a note that names it. Without one it is
    whatever the branch holds when a replica starts, and is refused. A config can also name code of another repository
    (`auto_map: other/repo--module.Class`), which the revision of this one does not hold: --code-revision does.

        args: [--trust-remote-code]     refused with source: hf:org/model@main
        args: [--trust-remote-code]     a note with source: hf:org/model@0e9e39f2… (40 digits)

    Pin the source to the commit that was reviewed, or take the flag out: most models no longer need it.
    """
    for use in context.uses:
        yield from remote_code_of(context, use)


@rule(Severity.WARNING, across=holes_of_fleet)
def advisory(context: Context) -> Iterator[Problem]:
    """A hole that is published is used within hours, so a version that has one should not wait for a quiet week.

    The version that a profile runs is held against a table of published advisories (CVE and GHSA numbers with their
    versions); it knows nothing that was published after this release. Where an advisory matters only with a flag, a
    variable, several nodes or code in the model's repository, it is told only there. The message begins with the
    gravest.

        defaults: {engine_versions: {vllm: "0.13.0"}}    told once, at this line: 0.32.0 has none of them
        args: [--enable-custom-logit-processor]          told at this flag, for the versions of SGLang that have it

    Raise the version. Where no fixed one is published, take the flag out or keep the engine from being reached.
    """
    for use in context.uses:
        yield from holes_of(context, use)


def _agents(context: Context) -> Iterator[Problem]:
    """Agents that would be reached so, once for each pool."""
    by_pool: dict[str, list[Node]] = {}
    for node in context.nodes:
        if node.address is not None and _is_plain(node.address):
            by_pool.setdefault(node.pool, []).append(node)
    for nodes in by_pool.values():
        names = listed([node.name for node in nodes])
        message = f"the agent of {names} would be reached over plain http"
        yield Problem(nodes[0].where.at("address"), message, "write https")


@rule(Severity.ERROR, across=_agents)
def plain_http(context: Context) -> Iterator[Problem]:
    """Over plain http everybody on the way reads prompts and keys, and may answer in the place of the agent.

    Agents and external models are reached over https; plain http is for this machine itself (localhost, 127.0.0.1,
    ::1). Weights over plain http are refused where the source is read.

        address: http://{node}.internal:7443                 refused: https
        external: {url: "http://llm.example/v1"}             refused: https

    Write https, or put a proxy with a certificate beside it.
    """
    for model in context.models:
        if model.external is not None and _is_plain(model.external.url):
            where = context.desired.where_by_model[model.name].at("external", "url")
            message = f"requests to {model.name} and their key would go over plain http"
            yield Problem(where, message, "write https", model.name)


@rule(Severity.ERROR, across=secret_labels)
def plain_secret(context: Context) -> Iterator[Problem]:
    """A secret in git is read by everybody who can read the repository, now and in every clone, for ever.

    Looked at are env, args, addresses, labels and select: for the forms that issuers give their tokens (hf_, sk-, ghp_,
    AKIA, private keys and so on), for passwords and signatures in addresses, and for plain text under a name that holds
    secrets (…_TOKEN, …_PASSWORD, …_API_KEY). The value is never repeated in what is told.

        env: {HF_TOKEN: hf_…}                    refused
        env: {HF_TOKEN: {secret: hub}}           the agent reads it from its secrets directory

    Write {secret: NAME}, put the value into that directory on the nodes, and replace the secret at its issuer: removing
    it from the file does not remove it from git.
    """
    yield from plain_secrets(context)


@rule(Severity.ERROR)
def env(context: Context) -> Iterator[Problem]:
    """A variable can put other code in the place of the engine's, or set what the agent sets.

    Variables that belong to a field or to the agent's launch are args/managed-flag; here are those that load libraries
    or Python code, and those by which ranks find each other. What may be right in rare places is a warning.
    A key that is declared in another engine's variable is refused too, where this engine then has none: its author
    believes that requests need it. Each engine that takes a key has a variable of its own for it.

        env: {LD_PRELOAD: /opt/x.so}             refused
        env: {PYTHONPATH: /opt/patches}          refused
        env: {LD_LIBRARY_PATH: /opt/cuda/lib64}  a warning
        env: {VLLM_API_KEY: {secret: key}}       refused where engine is not vllm: it would answer without a key

    Install it where the engine is installed, or set it in the environment of the agent, which hands on PATH,
    LD_LIBRARY_PATH and PYTHONPATH: that is a decision of the node, not of a model.
    """
    for use in context.uses:
        managed = {each.at for each in context.knowledge.managed(use)}
        for name in use.profile.env or {}:
            risk = risky_variable(name)
            if risk is not None and name not in managed:
                severity = None if risk.severity is Severity.ERROR else risk.severity
                hint = "remove it, or set it in the environment of the agent"
                yield use.problem(("env", name), f"{name} {risk.why}", hint, severity=severity)
        for name, message, instead in keys_of_others(use):
            yield use.problem(("env", name), message, instead)


@rule(Severity.WARNING)
def engine_exposed(context: Context) -> Iterator[Problem]:
    """Engines have doors for their developers, and most of them ask for no key.

    Replicas listen on an address of their own, which whoever is on that network may reach. These flags and variables
    let requests read files, run code, change weights or settings, or let any web page send requests.

        args: [--allowed-local-media-path, /]    requests could read every file of the node
        env: {VLLM_SERVER_DEV_MODE: "1"}         endpoints that change weights and drop caches

    Take it out where a model serves people. For an experiment keep it, on nodes that nobody else reaches.

    One door the launch opens itself: vLLM and SGLang load adapters while they serve, through their own API, which a key
    guards like the rest of it. Without one, whoever reaches the engine can load any directory of the node as an
    adapter, or take the model's out. Told where nodes other than this machine could run the replica:

        adapters: [{name: sql, source: …}]       declare env: {VLLM_API_KEY: {secret: NAME}}, or SGLANG_API_KEY
    """
    for use in context.uses:
        doors, managed = exposing_flags(use.profile.engine), {each.at for each in context.knowledge.managed(use)}
        for path, name, value in flags_given(context, use):
            door = doors.get(name)
            if door is not None and is_on(value, door.word) and path[1] not in managed:
                yield use.problem(path, f"{name} {door.why}", "take it out where the model serves people")
        for name, text in (use.profile.env or {}).items():
            door = exposing_variables(use.profile.engine).get(name)
            if door is not None and (not isinstance(text, str) or is_on(text, door.word)):
                yield use.problem(("env", name), f"{name} {door.why}", "take it out where the model serves people")
    yield from _open_to_adapters(context)


_LIVE = {Engine.VLLM: ("vLLM", "VLLM_API_KEY"), Engine.SGLANG: ("SGLang", "SGLANG_API_KEY")}
"""Engines that load adapters by requests, and the variable of the key that guards them."""


def _open_to_adapters(context: Context) -> Iterator[Problem]:
    """Replicas whose adapters come and go by requests that need no key."""
    uses = [use for use in context.uses if use.model.adapters and use.profile.engine in _LIVE]
    if not uses or all(node.address in (None, LOCAL) for node in context.desired.nodes):
        return  # an agent of this machine lets its engines listen on loopback
    for use in uses:
        called, key = _LIVE[use.profile.engine]
        if key not in (use.profile.env or {}) and declare(context.desired, use.model, use.profile).loads_adapters:
            message = (
                f"{called} loads adapters through its own API, without a key: whoever reaches it can load any directory"
                " of the node"
            )
            yield use.problem("engine", message, f"env: {{{key}: {{secret: NAME}}}}")


def _is_plain(url: str) -> bool:
    """Whether it is http to another machine."""
    if url[:5].lower() != "http:":
        return False  # a fleet has an address a node, and hardly one of them is so
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname)
