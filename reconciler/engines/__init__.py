"""DECISIONS: one module an engine: declaration and site → command line, readiness, in-flight signal, stop behaviour.

Pure: the agent opens the sockets and starts the processes, this package says what to send and how to read the answer.
"""
