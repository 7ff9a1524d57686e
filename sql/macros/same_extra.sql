-- same_extra(target, golden): whether two leaves agree in what no column holds; each framework has its own, so between
-- frameworks it is not looked at.
CREATE OR REPLACE MACRO same_extra(target, golden) AS
getvariable('cross_framework') = 1 OR target IS NOT DISTINCT FROM golden
