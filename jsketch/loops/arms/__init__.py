"""A bandit meets a problem over arms.

rollout      the pure run
checkpoint   a run in a file
advance      one run on the host: segments, growth, files
run          runs over seeds
over_devices seeds over the devices of a mesh
drive        an objective that cannot be traced
stop         when it has found enough
"""
