"""What keeps a job held until something happens by itself: begin time, dependencies, throttle."""
