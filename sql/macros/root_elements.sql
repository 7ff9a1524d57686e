-- root_elements_of(shape): √n for a tensor of n elements; norm / √n is the scale of its mean. 1 for an empty tensor.
CREATE OR REPLACE MACRO root_elements_of(shape) AS
sqrt(greatest(coalesce(list_aggregate(shape, 'product'), 1), 1))
