-- verification_of(filename): the verification that a file is of.
-- parameters: lake_depth, how many slashes are in front of what lies in the lake
CREATE OR REPLACE MACRO verification_of(filename) AS
folder_of(filename, 1, 'verification=')
