"""Reads of the books for those who may: exports and reports."""
