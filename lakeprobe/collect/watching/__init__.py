"""The parts of watching a training step that all frameworks share: names, counters, order and the module tree."""
