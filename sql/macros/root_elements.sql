-- root_elements_of(shape): √n of a tensor of n elements: its norm over this is the scale of its mean. 1 for an empty one.
CREATE OR REPLACE MACRO root_elements_of(shape) AS
sqrt(greatest(coalesce(list_aggregate(shape, 'product'), 1), 1))
