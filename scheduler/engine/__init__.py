"""Decides what runs where: a `Snapshot` goes in, a `Plan` comes out, and nothing else happens.

*One function.* `plan_cycle(snapshot, policy)` looks at the whole cluster at one moment and says
which waiting jobs start on which devices, and why each of the others waits. It reads no clock,
no database and no settings, so the same snapshot always gives the same plan, in production, in
the simulator and in a test.

*Columns, not objects.* A snapshot is arrays: one row per node, device, placement and waiting job.
Equal requests form one class, and a class is decided once: what does not fit now cannot fit later
in the same cycle, because the board of free capacity only shrinks. Thousands of equal waiting jobs
therefore cost one test, and their reasons stay columns until somebody reads them.

*In order, without blocking.* Jobs are tried by tier, then age. A job that does not fit lets
smaller ones pass, until it has waited too long: then it becomes the protected head of its pool.
The nodes where it can start soonest are kept for it, and others may use them only with devices it
does not need or for a time that ends before it starts. So a large gang starts at the latest when
the jobs on those nodes reach their time limits.

*What stays free counts.* Among nodes that hold a job the policy prefers: the tightest fit, or the
one whose rest is worth most to the usual requests (`packing`).

*Every job gets an answer.* It starts, whole, on distinct nodes and devices, or it waits for exactly
one reason of `scheduler.states.WaitReason`, with the numbers that make the sentence true.
"""
