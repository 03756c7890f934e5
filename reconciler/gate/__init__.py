"""DECISIONS: the rules of design section 5. One rule is one function over a `Context`, its slug is its path.

`check.check` runs them all, `check.report` sums up, `check.RULES` holds their words.
A new group is a module here with functions under `@rule`; nothing lists them.
`nearest`, `phrases`, `capacity`, `fitting` and `cycles` are what rules share or lean on.
`knowledge` and `sizes` are what locks and engines say, worked out once; `valid` and `remedies` are what would pass.
"""
