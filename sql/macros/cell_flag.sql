-- cell_flag(flag): True or False, or N/A if it is not recorded.
CREATE OR REPLACE TEMP MACRO cell_flag(flag) AS
CASE WHEN flag THEN 'True' WHEN NOT flag THEN 'False' ELSE 'N/A' END
