-- steepest(api, largest): the largest slope of a function of each element, where `largest` is the largest magnitude of what it
-- gives; NULL of other functions.
CREATE OR REPLACE MACRO steepest(api, largest) AS
CASE
    WHEN regexp_matches(api, '(?i)^exp2?_?$') THEN largest
    WHEN regexp_matches(api, '(?i)^sigmoid_?$') THEN 0.25
    WHEN is_activation(api) OR regexp_matches(api, '(?i)^(softplus|logsigmoid|sin|cos)_?$') THEN 1
END
