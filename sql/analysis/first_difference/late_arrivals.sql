-- late_arrivals: the arrivals, those of stranded ranks as late as can be.
-- grain: one transfer by which a rank takes
-- parameters: the tables arrivals and stranded
SELECT arrivals.* REPLACE (if(stranded.rank IS NULL, moment, late_moment) AS moment)
FROM arrivals
LEFT JOIN stranded USING (step, rank)
