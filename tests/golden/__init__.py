"""The golden set: what cdopt answered before it was rebuilt, and a comparison with what it does.

``python -m tests.golden make`` records, ``python -m tests.golden compare`` compares. Problems are
made from seeds; only results are stored. The public interface alone is used, so that the same
script runs on any version.
"""
