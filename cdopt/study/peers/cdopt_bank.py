"""The file to give to qpbenchmark: it looks for a class named as its file."""

from cdopt.study.peers import qpbenchmark_set

CdoptBank = qpbenchmark_set.bank_test_set
