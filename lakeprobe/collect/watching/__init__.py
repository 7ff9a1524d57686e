"""What is the same in every framework about watching a training step: names, counters, order, the tree of modules."""
