"""Says how the tensors of a job of several ranks were cut, and makes one whole run of them.

`mesh.py`: the axes of the job, and where each rank stands. `names.py`: what an op of a rank is called in the whole
model. `placements.py`: how each tensor lies over the axes.
`parts.py`: what a cut computes in parts. `merge.py`: the whole run, as a run of the lake.
`shards.py`: which rank's shard carries a difference.
"""
