-- sights(number, norm): of a group of tensors, those that recorded one value, as known_before takes them.
CREATE OR REPLACE MACRO sights(number, norm) AS
{'numbers': list(number), 'norms': list(norm), 'least': min(norm), 'most': max(norm)}
