"""The command line: one short file a command. Each imports only what help texts need.

What a command does is called as ``cdopt.NAME``, which is imported when it is first used; so
``cdopt --help`` is quick.
"""
