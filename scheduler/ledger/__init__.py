"""Who owes what, exactly: device seconds to lines, lines to entries, entries to statements.

1. `segments`: every second a device is in service lies in exactly one bucket.
2. `rating`: bucket seconds of a holder, a UTC day and a price become a line with an exact amount.
3. `shares`: what nobody held is split by a policy, in whole seconds; cents by largest remainder.
4. `entries`: amounts are booked twice and chained by their hashes.
5. `periods`: a month is open, soft-closed, closed, perhaps reopened; what changes after a close is
   a correction in an open month.
6. `focus`: the same lines in the columns of the FinOps cost and usage specification.

Pure: standard library only, no clock, no float. Moments are whole seconds since 1970 UTC; half-open
intervals `[start_s, end_s)` everywhere.
"""
