-- hides_products(class): whether a module class may hold matrix products that a dump of modules alone does not show: any class
-- but those that are known by name as functions of each element, normalisations, pools, losses or moves of elements.
CREATE OR REPLACE MACRO hides_products(class) AS
rounding_of(class) = 'other'
AND NOT is_activation(class)
AND NOT regexp_matches(class, '(?i)norm|soft(max|min|plus|sign|shrink)|sigmoid|shrink|threshold|pool|loss|upsample|shuffle')
