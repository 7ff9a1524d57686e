-- cell_percent(relative): a relative error as a percentage; inf if only the golden side is 0.
CREATE OR REPLACE TEMP MACRO cell_percent(relative) AS
if(isinf(relative), 'inf', (relative * 100)::VARCHAR || '%')
