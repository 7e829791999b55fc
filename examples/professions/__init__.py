"""From a file that a profession has to a verdict: robots, masonry, grains; and four engines.

``python -m examples.professions robots`` (or ``masonry``, ``grains``, ``engines``).
"""
