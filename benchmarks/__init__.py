"""What cdopt costs, compared with general solvers and the limits of the machine.

    python -m benchmarks.run --quick

writes ``costs.json``, its pictures and the page ``docs/costs.md``.
"""
