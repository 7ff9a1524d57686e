-- late_arrivals: the arrivals, with those of stranded ranks as late as possible.
-- grain: one transfer by which a rank receives
-- parameters: the tables arrivals and stranded
SELECT arrivals.* REPLACE (if(stranded.rank IS NULL, moment, late_moment) AS moment)
FROM arrivals
LEFT JOIN stranded USING (step, rank)
