"""SHELL: where desired state comes from: the bytes of one tree, YAML with positions, and what they mean together.

tree         what was read, as bytes; `repository` (one commit) and `worktree` (what lies there) read it
loader       a tree → `Desired`, or every finding about it; `layout` says what each file is read as
reading      one YAML file → one object, by `documents` (parser events → values with places, through `builder`,
             `scalars`, `text`, `complaints`) and `validation` (what pydantic refuses, in words: `expectation`,
             `wording`, `fields`); `locks` the same for JSON
pools        a pool's file → its nodes; `ranges` expands `gpu-[01-16]`
report       `fault` by fault → findings; `masking` keeps secrets out of the lines that are shown with them
watcher      when to look again

Nothing here follows a symlink, runs a hook or constructs an object from a tag.
"""
