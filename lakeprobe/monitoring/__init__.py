"""Monitoring: light series of a long training, such as the norm of every gradient, step by step.

`lakeprobe.monitor` is `lakeprobe.monitoring.session.monitor`. `pytorch/` and `mindspore/` hook into the
training, `writing.py` puts the series into the lake, and `sql/watch` has the rules that find what is wrong in them.
"""
