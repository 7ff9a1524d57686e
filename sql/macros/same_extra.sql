-- same_extra(target, golden): whether two leaves agree in the fields without a column. Frameworks record different
--   fields, so between frameworks they always agree.
CREATE OR REPLACE MACRO same_extra(target, golden) AS
getvariable('cross_framework') = 1 OR target IS NOT DISTINCT FROM golden
