"""Every place of a tree where a secret may stand in plain text, looked at for one; its value is never repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem
from reconciler.domain.source import HttpsSource, parse_source
from reconciler.gate.doors import flags_given
from reconciler.gate.secrets import kind_in_address, kind_of, kind_under
from reconciler.gate.written import sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.desired import Where
    from reconciler.gate.subject import Context, Use

_REPLACE = "and replace it at its issuer: what was in git stays known"


def plain_secrets(context: Context) -> Iterator[Problem]:
    """What models say: one problem for each."""
    for use in context.uses:
        yield from _env(use)
        yield from _args(context, use)
        for name, text in (use.profile.select or {}).items():
            if kind := kind_under(name, text):
                yield use.problem(("select", name), f"select holds {kind} in plain text", f"remove it, {_REPLACE}")
    for model in context.models:
        place = context.desired.where_by_model[model.name]
        if model.external is not None and (kind := kind_in_address(model.external.url)):
            hint = f"write api_key_env, {_REPLACE}"
            yield Problem(place.at("external", "url"), f"the address of {model.name} holds {kind}", hint, model.name)
        for each in sources(model, place):
            kind = kind_in_address(each.source) if isinstance(parse_source(each.source), HttpsSource) else None
            if kind is not None:
                hint = f"serve it without one, or put it on the node with file:, {_REPLACE}"
                yield Problem(each.where, f"{each.what} holds {kind}", hint, model.name)


def _env(use: Use) -> Iterator[Problem]:
    for name, text in (use.profile.env or {}).items():
        if isinstance(text, str) and (kind := kind_under(name, text)):
            yield use.problem(
                ("env", name), f"{name} holds {kind} in plain text", f"write {name}: {{secret: NAME}}, {_REPLACE}"
            )


def _args(context: Context, use: Use) -> Iterator[Problem]:
    """By the form of any word, and by the name of the flag that a word is the value of."""
    told: set[int] = set()
    for index, word in enumerate(use.profile.args):
        if kind := kind_of(word):
            told.add(index)
            yield use.problem(("args", index), f"args hold {kind} in plain text", f"write it as env, {_REPLACE}")
    for path, name, value in flags_given(context, use):
        values = value if isinstance(value, list | tuple) else [value]
        at = path[1]
        if not isinstance(at, int) or told & set(range(at, at + len(values) + 1)):
            continue
        if any(isinstance(each, str) and kind_under(name, each) for each in values):
            yield use.problem(path, f"{name} holds a secret in plain text", f"write it as env, {_REPLACE}")


def secret_labels(context: Context) -> Iterator[Problem]:
    """The same of the labels of nodes, once for each pool."""
    told: set[tuple[str, str]] = set()
    for node in context.nodes:
        for name, text in node.labels.items():
            kind = kind_under(name, text)
            if kind is not None and (node.pool, name) not in told:
                told.add((node.pool, name))
                where: Where = node.where.at("labels", name)
                yield Problem(
                    where, f"label {name} of {node.name} holds {kind} in plain text", f"remove it, {_REPLACE}"
                )
