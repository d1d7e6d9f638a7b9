"""What the rows of a database show of the invariants I1 to I38. Pure: rows in, words out.

Asked by two: `scheduler/services/invariants` every night on live data, and `portal/torture`, which
sees from outside as well and adds what no row can tell. A function yields once for everything it
looked at: an empty text where the invariant holds, else the words of a break.
"""
