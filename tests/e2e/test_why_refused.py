"""A commit that the gate refuses for lack of room alone: `why` still tells what is in the way, and what would help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.site import Site

if TYPE_CHECKING:
    from pathlib import Path


def test_of_a_model_without_room_in_a_refused_commit_why_names_ways_out(tmp_path: Path) -> None:
    site = Site(tmp_path)
    pool = site.read("cluster/nodes/here.yaml")
    site.write("cluster/nodes/here.yaml", pool.replace("memory_gib: 8", "memory_gib: 1"))
    site.model()
    second = site.read("cluster/models/tiny.yaml").replace("name: tiny", "name: second")
    site.write("cluster/models/second.yaml", second)
    site.commit("two models, and room for one")

    told = site.run("why", "tiny", code=1)

    assert "one more node like this-machine" in told.stdout
    assert "✓" in told.stdout
    assert "error inventory/overcommitted" in told.stderr, "and it says that the commit is refused"
    assert json.loads(site.run("why", "tiny", "--format", "json", code=1).stdout)["rule"] == "inventory/overcommitted"
    other = site.run("why", "second", code=1)
    assert other.stdout == "", "it has a place, and does not start: nothing of a refused commit does"
    assert "error inventory/overcommitted" in other.stderr


def test_what_is_refused_for_another_reason_is_not_explained_by_planning(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.model()
    site.write("cluster/models/tiny.yaml", site.read("cluster/models/tiny.yaml") + "contxt: 1\n")
    site.commit("a typing mistake")

    told = site.run("why", "tiny", code=1)

    assert told.stdout == ""
    assert "yaml/unknown-field" in told.stderr
