-- perturbation_of(filename): the perturbation that a file is of. While a run is collected, a unit has a file of its own.
-- parameters: lake_depth, how many slashes are in front of what lies in the lake
CREATE OR REPLACE MACRO perturbation_of(filename) AS
split_part(folder_of(filename, 1, 'perturbation='), ',', 1)
