"""Other people's benchmarks and solvers, given the problems of the bank.

``qpbenchmark_set`` is the bank as a test set of qpbenchmark. ``siconos_lcp`` are the solvers of
Siconos for linear complementarity problems.

MuJoCo's solvers are not among them. They take a model and its state, not matrices, and solve
another problem: contacts with a compliance and a damping of their own (solref, solimp), which add
a positive diagonal to N. Their forces are unique by that diagonal, and their residual against
(22) would measure it. ``cdopt.interop.mujoco`` brings MuJoCo's contacts here instead.
"""
