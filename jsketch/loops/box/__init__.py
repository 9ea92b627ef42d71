"""A box optimiser meets an objective: `run_box` where it can be traced, `drive_box` where it
cannot."""
