"""Planning beside the plan of the cycle itself: without jobs that break it, and in other pools."""
