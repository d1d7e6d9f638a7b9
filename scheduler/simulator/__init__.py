"""The engine under a fake clock: a trace of jobs goes in, figures come out.

*The same decisions.* At each event - jobs arrive, jobs end - the simulator shows `plan_cycle` the
cluster as it is and carries out what the plan says. It decides nothing itself, so a figure measured
here is a figure of the product's own policy.

*Nothing real.* No database, no processes, no clock but its own: a month of jobs takes minutes.

*Checked as it goes.* A plan that gives a device twice, or starts a job that does not wait, stops
the replay with an error.
"""
