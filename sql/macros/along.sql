-- along(places, ways, way): the coordinates of a shard along the axes of the mesh with this way of cutting, 0 along the
-- others. Members with equal ones are copies of each other, as far as these axes go.
CREATE OR REPLACE MACRO along(places, ways, way) AS
list_transform(list_zip(places, ways), lambda axis: if(axis[2] = way, axis[1], 0))
