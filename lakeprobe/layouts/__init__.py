"""Says how the tensors of a job of several ranks were cut, and makes one whole run of them.

`mesh.py`: the axes of the job, and where each rank stands. `names.py`: what an op of a rank is called in the whole
model. `placements.py`: how each tensor lies over the axes.
`merge.py` makes the whole run, a run of the lake, step by step: `programs.py`: what the ranks run. `members.py`: their
tensors under the names of the whole. `fitting.py`: golden's ops, and none that the cut adds. `parts.py`: what a cut
computes in parts. `whole.py`: statistics together. `contents.py`: contents together. `unit.py`: the unit.
`shards.py`: which rank's shard carries a difference.
"""
