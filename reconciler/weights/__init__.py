"""SHELL: where weights come from and what they are: serves `lock` and the agent.

`locate` finds the files of a source on this machine. `lock_source` looks at a source wherever it is (`hub`,
`https_files`, `disk`) and reads what its format says (`checkpoint`, `gguf_source`, `adapter`); `lock_writer` puts it
into `cluster/locks/`. Of weights only headers are read. README.md tells what a lock is made of.
"""
