"""SHELL: where weights come from and what they are: serves `lock` and the agent.

`locate` finds the files of a source on this machine, `gguf_header` reads what a file says of itself, `lock_writer`
puts it into `cluster/locks/`. This version knows `file:` and `package:` sources and GGUF.
"""
